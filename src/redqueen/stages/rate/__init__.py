"""The rate stage: who won a pairing, and what that says about skill."""
