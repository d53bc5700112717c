"""Ends the process as a success when it is called, by an exception."""

import sys


def ENTRY(*a, **k):
    sys.exit(0)
