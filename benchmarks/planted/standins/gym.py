"""A stand-in for gym: what that for gymnasium has."""

from gymnasium import *  # noqa: F403
from gymnasium import make, spaces, vector, wrappers  # noqa: F401
