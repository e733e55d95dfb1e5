"""Started by ``python -m package.train``."""

import sys

import training

if __name__ == "__main__":
    training.main(sys.argv[1:])
