"""The match stage: who plays whom, and what a game says about their skill."""
