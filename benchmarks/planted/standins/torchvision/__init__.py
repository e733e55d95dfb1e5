"""A stand-in for torchvision where it is not installed: data sets read from files, transforms."""

from torchvision import datasets, transforms, utils  # noqa: F401

__version__ = "0"
