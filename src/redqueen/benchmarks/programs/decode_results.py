"""Runs before trusted code, in its process: turns a candidate's encoded results back into values.

What a candidate wrote is hostile. A tag counts only with parts of the right type and a bounded
size; any other stands for an object that equals nothing.
"""


def _redqueen_make_decode():
    from decimal import Decimal
    from fractions import Fraction

    most_bits, most_digits, hex_digits = 4096, 1000, 64

    class Foreign:
        """An object without a literal."""

    class Digest(str):
        """A large value by the hash of its parts; equals digests only."""

        def __eq__(self, other):
            return type(other) is Digest and str.__eq__(self, other)

        __hash__ = str.__hash__

    def parse_float(text):
        if type(text) is not str or len(text) > 40:
            raise ValueError
        return float(text)

    def make_fraction(numerator, denominator):
        for part in (numerator, denominator):
            if type(part) is not int or part.bit_length() > most_bits:
                raise ValueError
        return Fraction(numerator, denominator)

    def make_decimal(text):
        if type(text) is not str or len(text) > most_digits:
            raise ValueError
        number = Decimal(text)
        if number.is_snan():  # raises wherever it is compared
            raise ValueError
        return number

    def make_digest(text):
        if type(text) is not str or len(text) != hex_digits:
            raise ValueError
        return Digest(text)

    makers = {
        "\0float": parse_float,
        "\0complex": lambda real, imag: complex(parse_float(real), parse_float(imag)),
        "\0fraction": make_fraction,
        "\0decimal": make_decimal,
        "\0digest": make_digest,
        "\0tuple": lambda items: tuple([decode(item) for item in items]),
    }

    def decode(value):
        kind = type(value)
        if kind is tuple:
            if value and type(value[0]) is str and value[0][:1] == "\0":
                try:
                    return makers[value[0]](*value[1:])
                except (KeyError, TypeError, ValueError, ArithmeticError):
                    return Foreign()
            return tuple([decode(item) for item in value])
        if kind is list:
            return [decode(item) for item in value]
        if kind is set:
            return {decode(item) for item in value}
        if kind is dict:
            return {decode(key): decode(item) for key, item in value.items()}
        return value

    return decode


_redqueen_decode = _redqueen_make_decode()
