"""The stages of a step, one module or folder each."""
