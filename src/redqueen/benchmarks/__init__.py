"""Published benchmarks and their graders."""
