"""What `redqueen bench` measures."""
