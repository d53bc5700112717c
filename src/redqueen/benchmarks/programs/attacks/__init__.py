"""Candidates that compute nothing and try to pass anyway. `ENTRY` stands for the function that is
called."""
