"""Runs behind a candidate, in its process: wraps the function that the sandbox calls, so that its
results come back as literals, with tagged tuples for what has no literal.

Names are bound inside one function, out of reach of the candidate's globals.
"""


def _redqueen_wrap(call, large):
    import builtins as b
    import collections
    import decimal
    import fractions

    def encode(value):
        kind = b.type(value)
        if value is None or kind in (b.bool, b.int, b.str, b.bytes):
            return value
        if kind is b.float:
            return value if value - value == 0 else ("\0float", b.float.__repr__(value))
        if kind is b.complex:
            return ("\0complex", b.float.__repr__(value.real), b.float.__repr__(value.imag))
        if kind is b.list:
            return [encode(item) for item in value]
        if kind is b.tuple:
            return encode_tuple(value)
        if kind is b.set or b.isinstance(value, (b.set, b.frozenset)):
            return b.set([encode(item) for item in value])
        if b.isinstance(value, b.dict):
            return {encode(key): encode(item) for key, item in b.dict.items(value)}
        if b.isinstance(value, b.list):
            return [encode(item) for item in b.list.__iter__(value)]
        if b.isinstance(value, collections.deque):
            return ("\0deque", [encode(item) for item in value])
        if b.isinstance(value, b.tuple):
            return encode_tuple(b.tuple.__iter__(value))
        if kind is fractions.Fraction:
            return ("\0fraction", value.numerator, value.denominator)
        if kind is decimal.Decimal:
            return ("\0decimal", b.str(value))
        for base, convert in (
            (b.str, b.str.__str__),
            (b.int, b.int.__index__),
            (b.float, b.float.__float__),
        ):
            if b.isinstance(value, base):
                return convert(value)
        return ("\0object", b.type.__name__ if kind is b.type else kind.__name__)

    def encode_tuple(items):
        items = b.tuple([encode(item) for item in items])
        looks_tagged = items and b.type(items[0]) is b.str and items[0][:1] == "\0"
        return ("\0tuple", items) if looks_tagged else items

    def count_down(value, left):
        """`left` less the parts of the value; below zero it stops counting."""
        kind = b.type(value)
        if kind in (b.list, b.tuple):
            left -= 1
            for item in value:
                left = count_down(item, left)
                if left < 0:
                    break
            return left
        return left - (b.len(value) if kind in (b.str, b.bytes) else 1)

    def all_whole(value):
        whole = [None for item in value if item - item == 0 and item == item // 1]
        return b.len(whole) == b.len(value)

    def digest(value, update):
        kind = b.type(value)
        if kind is b.float and value - value == 0 and value == b.int(value):
            value, kind = b.int(value), b.int
        if kind is b.float:
            update((b.repr(value) + ",").encode())
        elif value is None or kind in (b.bool, b.int):
            update((b.repr(value if value is None else b.int(value)) + ",").encode())
        elif kind in (b.str, b.bytes):
            update((b.repr(value) + ",").encode("utf-8", "backslashreplace"))
        elif kind in (b.list, b.tuple):
            update(b"[" if kind is b.list else b"(")
            kinds = b.set(b.map(b.type, value))
            if kinds == {b.str}:  # all at once: a text equals texts only
                update(b.repr(value).encode("utf-8", "backslashreplace"))
            elif kinds <= {b.int, b.float, b.bool} and all_whole(value):
                numbers = b.repr([b.int(item) for item in value])[1:-1].replace(" ", "")
                update((numbers + ",").encode())
            else:
                for item in value:
                    digest(item, update)
            update(b"]")
        else:
            raise b.ValueError

    def entry(*arguments, **keywords):
        value = call(*arguments, **keywords)
        # a list of floats is never digested: its items need only be near
        if count_down(value, large) < 0 and b.set(b.map(b.type, value)) != {b.float}:
            import hashlib

            try:
                state = hashlib.blake2b(digest_size=32)
                digest(value, state.update)
                return ("\0digest", state.hexdigest())
            except b.ValueError:
                pass
        return encode(value)

    return entry
