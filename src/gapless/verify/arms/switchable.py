"""Which edits can be switched while a training runs; what cannot, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap

FIRST_SWITCHED: Final = 1000  # number of the first side's first edit, as the overlay counts them
SETTLING: Final = 0.25  # of a block: the steps after a switch that do not count
MIN_SETTLING: Final = 2  # steps
_FLAGS: Final = ("fused", "foreach")  # of optimizers
_GLOBALS: Final = frozenset(
    {
        "torch.set_float32_matmul_precision",
        "torch.backends.cudnn.allow_tf32",
        "torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.cuda.matmul.fp32_precision",
        "torch.backends.cudnn.conv.fp32_precision",
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
        "torch.set_num_threads",
        "torch.set_anomaly_enabled",
        "torch.autograd.set_detect_anomaly",
        "torch.backends.opt_einsum.enabled",
    }
)
_PARTS: Final = frozenset(
    {"autocast", "sdpa", "non-blocking", "collector", "no-logging", "no-checkpoint"}
)


@dataclass(frozen=True)
class SwitchPlan:
    """How long blocks are, and how many: what ``payload.trial.switching`` is told."""

    warm: int = 20  # steps before the first block
    block_s: float = 1.0
    min_steps: int = 8  # of a block
    min_rounds: int = 3  # blocks of each side
    max_rounds: int = 8


def explain_obstacle(edits: Sequence[Edit]) -> str | None:
    """Return why some edits cannot be switched together while a training runs; ``None``: can."""
    return next((why for why in map(_explain, edits) if why is not None), None)


def _explain(edit: Edit) -> str | None:
    match edit:
        case Skip():
            return None
        case SetGlobal(target=target):
            return None if target in _GLOBALS else f"{target} takes effect at the start"
        case SetArgument(target=target, name=name):
            owner = target.rpartition(".")[2]
            is_flag = target.startswith("torch.optim.") and name in _FLAGS
            is_constructed = owner[:1].isupper() and not is_flag
            return f"{owner} takes {name} when it is made" if is_constructed else None
        case Wrap(part=part):
            return None if part in _PARTS else f"{part} takes effect at the start"
        case SetEnv(name=name):
            return f"{name} is read at the start"
