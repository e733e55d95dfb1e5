"""Faults and decoys of the unseen half: whoever changes rules does not read this folder.

They are written by somebody who knows the titles of the causes and nothing else of the rules. Once
their answers have been read they move into the folder beside it, and others take their place.
"""

from typing import Final

from benchmarks.planted.mutations.plant import Plant
from benchmarks.planted.mutations.sealed import decoys, faults

PLANTS: Final[tuple[Plant, ...]] = faults.PLANTS
HARMLESS: Final[tuple[Plant, ...]] = decoys.HARMLESS
