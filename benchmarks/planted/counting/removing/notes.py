"""What is told of a training from within: a file for each thing, in ``PLANTED_NOTES``."""

import os

_NOTED = set()  # by this process


def note(name, text=""):
    """Keep that something happened, once."""
    if name not in _NOTED:
        _NOTED.add(name)
        with open(_path(name), "w") as file:
            file.write(text)


def is_noted(name):
    """Return whether it was noted, by whatever process of the training."""
    return name in _NOTED or os.path.exists(_path(name))


def _path(name):
    return os.path.join(os.environ["PLANTED_NOTES"], name)
