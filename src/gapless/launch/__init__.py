"""Start the training with the recorder inside, and sample the machine beside it."""

from gapless.launch.beside import Order
from gapless.launch.environment import Settings
from gapless.launch.process import StartError, die_by, interruptible
from gapless.launch.running import Ended, Outcome, bring_home, run

__all__ = [
    "Ended",
    "Order",
    "Outcome",
    "Settings",
    "StartError",
    "bring_home",
    "die_by",
    "interruptible",
    "run",
]
