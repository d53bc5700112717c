"""Engines: what samples from members and trains them."""
