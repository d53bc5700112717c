"""MBPP and MBPP+."""
