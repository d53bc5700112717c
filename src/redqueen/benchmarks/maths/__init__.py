"""Maths benchmarks, graded by a process of their own."""
