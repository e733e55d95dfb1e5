"""Runs the training although Python does not look where the script lies (``-I``)."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import training

training.main(sys.argv[1:])
