"""Figures of a step: how complex problems are, and how much of the space they cover."""
