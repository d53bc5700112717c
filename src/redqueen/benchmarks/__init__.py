"""Benchmarks and their graders."""
