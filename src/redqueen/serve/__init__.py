"""Many people train and sample on one device in one pass, through APIs that they already use:
Tinker's for training, OpenAI's for text. HTTP is at the edge: `service.py` knows none of it."""
