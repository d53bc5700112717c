"""A run: the step, the worlds it changes, the pipeline, and how all of it is built."""
