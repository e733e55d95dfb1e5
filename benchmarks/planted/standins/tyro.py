"""A stand-in for tyro: a data class from ``--name value`` pairs."""

import sys


def cli(kind):
    values, rest = {}, sys.argv[1:]
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        key = name.lstrip("-").replace("-", "_")
        default = getattr(kind, key)
        if isinstance(default, bool):
            values[key] = text == "True"
        else:
            values[key] = text if default is None else type(default)(text)
    return kind(**values)
