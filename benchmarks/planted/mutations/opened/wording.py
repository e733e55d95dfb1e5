"""What faults are written with: the codes that name kinds of them, and pieces of their text."""

from typing import Final

FEW: Final = ("G101", "G102", "G112")
MADE: Final = (*FEW, "G107", "G108")
MORE: Final = ("more-workers", "workers-and-one-thread", "persistent-workers")
PYTHON: Final = ("G202", "G214", "G219")
ARRAYS: Final = (*PYTHON, "G203")
FILES: Final = (*PYTHON, "G215", "G702")
SELDOM: Final = (*ARRAYS, "G705")
QUIET: Final = ("no-logging", "log-every")
MANY: Final = ("G201", "G202", "G506")
CHORE: Final = ("G214", "G203", "G219")
SMALL: Final = (*MANY, *CHORE)
BULK: Final = ("G506", *CHORE)
READ: Final = ("G305", "G307", "G308", "G202", "G201", *CHORE)
SENT: Final = ("G301", "G302", "G303", "G304", "G202", *CHORE)
TORCH: Final = "import torch as _torch\n"
DEVICE: Final = "device={parameters}[0].device"
TURNS: Final = "for _ in range({r}):\n    "
TIMES: Final = "for _at in range({n}):\n    "


def rand(name: str, shape: str) -> str:
    """Return a line that draws a tensor where the parameters are."""
    return f"{name} = _torch.rand({shape}, {DEVICE})\n"


def ones(name: str, shape: str) -> str:
    """Return a line that makes a tensor of ones where the parameters are."""
    return f"{name} = _torch.ones({shape}, {DEVICE})\n"
