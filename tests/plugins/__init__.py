"""Plug-ins as somebody else would write them, named by import path in tests."""
