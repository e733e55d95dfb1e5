"""Measure the machine's constants: ``python …/probe/machine.py --json [--device 0] [--path …]``.

A process of its own in the user's interpreter: Python 3.9–3.14, the standard library, and torch
where it is there; gapless need not be. Prints a line of JSON as each measurement ends (see
``session``), so that what was measured stays if a later one hangs, or kills the process.
"""

from __future__ import annotations

import os
import sys

_NAME = "_gapless_probe"


def _enter() -> int:
    """Make this folder a package of its own name, and start; also in processes that it spawns."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as little as can be
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]  # noqa: PTH100
    package = type(sys)(_NAME)
    package.__path__ = [folder]
    sys.modules.setdefault(_NAME, package)
    if __name__ != "__main__":
        return 0
    from importlib import import_module

    return import_module(f"{_NAME}.session").main(sys.argv[1:])


if __name__ in {"__main__", "__mp_main__"}:
    _code = _enter()
    if __name__ == "__main__":
        sys.exit(_code)
