"""Read samples and write shards: ``python …/packer/worker.py SPECIFICATION``.

A process of its own in the user's interpreter, where the data set can be imported: Python
3.9–3.14, the standard library, and what the source and the target need; gapless need not be there.
"""

from __future__ import annotations

import os
import sys

_NAME = "_gapless_packing"


def _enter() -> int:
    """Make the folder above a package of its own name, so that this room finds ``parts``."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]
    package = type(sys)(_NAME)
    package.__path__ = [os.path.dirname(folder)]
    sys.modules[_NAME] = package
    from importlib import import_module

    session = import_module(f"{_NAME}.packer.session")
    # As "python -m" has it, for the user's modules; now that ours cannot be hidden by one of them.
    sys.path.insert(0, os.getcwd())
    return session.main(sys.argv[1])


if __name__ == "__main__":
    sys.exit(_enter())
