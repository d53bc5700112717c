"""A package outside of `redqueen` that supplies one of each thing by import path."""
