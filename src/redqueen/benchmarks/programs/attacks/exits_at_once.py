"""Ends the process as a success, without an exception."""

import os


def ENTRY(*a, **k):
    os._exit(0)


os._exit(0)
