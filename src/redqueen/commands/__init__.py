"""The commands behind the command line, one a file."""
