"""The match stage: which student attempts which teacher's problems."""
