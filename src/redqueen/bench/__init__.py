"""What `redqueen bench` measures, one subject a file: ratios within one run on one machine."""
