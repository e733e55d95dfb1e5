"""Stand in for gapless in a recorded training whose interpreter has none: ``gapless.step()``.

What else gapless offers needs gapless itself, installed beside the training.
"""

import sys
from typing import Any


def step() -> None:
    """Mark the end of a step of the loop; where nothing is recorded, do nothing."""
    marking: Any = sys.modules.get("_gapless.payload.marking")
    if marking is not None:
        marking.step()
