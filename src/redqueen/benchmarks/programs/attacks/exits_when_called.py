"""Ends the process as a success when it is called, without an exception."""

import os


def ENTRY(*a, **k):
    os._exit(0)
