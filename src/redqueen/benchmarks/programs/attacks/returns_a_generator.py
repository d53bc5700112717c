"""Returns what yields nothing."""


def ENTRY(*a, **k):
    return (_ for _ in ())
