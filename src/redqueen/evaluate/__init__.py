"""Evaluation: a read-only side exit. What is measured here never becomes a reward."""
