"""Which edits can be switched while a training runs; what cannot, and why."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap

FIRST_SWITCHED: Final = 1000  # number of the first side's first edit, as the overlay counts them
_FLAGS: Final = ("fused", "foreach")  # of optimizers
_LOADER: Final = "torch.utils.data.DataLoader"
_TURNS: Final = "persistent_workers"  # acts at epoch turns alone
_OF_LOADERS: Final = frozenset({"num_workers", "prefetch_factor", "pin_memory", "in_order", _TURNS})
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
    {
        "autocast",
        "cadence",
        "channels-last",
        "collector",
        "device-prefetcher",
        "grad-scaler",
        "no-checkpoint",
        "no-evaluation",
        "no-logging",
        "non-blocking",
        "recycled-collate",
        "sdpa",
        "worker-threads",
    }
)
# Parts that change what is done now and then: a checkpoint, an evaluation, a log.
_OCCASIONAL_PARTS: Final = frozenset({"cadence", "no-checkpoint", "no-evaluation", "no-logging"})
_TARGET_S: Final = 9.0, 11.0  # seconds in which sides are to be decided, and for each of them
_MORE_S: Final = 119.0  # in which few sides may still be decided where the budget is large …
_BUDGET_SHARE: Final = 0.6  # … and of the budget


class SwitchPlan(Struct, frozen=True):
    """How long blocks are, and how many: what ``payload.trial.switching`` is told."""

    target_s: float  # from the first step; sides that are undecided then stay so
    block_s: float = 0.7
    min_steps: int = 8  # of a block
    max_rounds: int = 30  # blocks of each side


def plan_switches(sides: int, budget_s: float) -> SwitchPlan:
    """Return the plan for so many sides."""
    usual_s = _TARGET_S[0] + _TARGET_S[1] * sides
    target_s = max(usual_s, min(_MORE_S, _BUDGET_SHARE * budget_s))
    return SwitchPlan(min(budget_s, target_s))


def explain_obstacle(edits: Sequence[Edit]) -> str | None:
    """Return why some edits cannot be switched together while a training runs; ``None``: can."""
    names = {edit.name for edit in edits if isinstance(edit, SetArgument)}
    if names == {_TURNS} and len(edits) == 1:
        return f"{_TURNS} acts at epoch turns, which blocks leave out"
    return next((why for why in map(_explain, edits) if why is not None), None)


def is_occasional(edit: Edit) -> bool:
    """Return whether an edit changes what is done now and then, not in each step."""
    return isinstance(edit, Skip) or (isinstance(edit, Wrap) and edit.part in _OCCASIONAL_PARTS)


def leaves_collector(edits: Sequence[Edit]) -> bool:
    """Return whether no edit is of Python's garbage collector."""
    return not any(
        edit.target.partition(".")[0] == "gc" for edit in edits if not isinstance(edit, SetEnv)
    )


def _explain(edit: Edit) -> str | None:
    match edit:
        case Skip():
            return None
        case SetGlobal(target=target):
            return None if target in _GLOBALS else f"{target} takes effect at the start"
        case SetArgument(target=target, name=name):
            return (
                None if _can_set(target, name) else f"{_owner(target)} takes {name} when it is made"
            )
        case Wrap(part=part):
            return None if part in _PARTS else f"{part} takes effect at the start"
        case SetEnv(name=name):
            return f"{name} is read at the start"


def _can_set(target: str, name: str) -> bool:
    """Return whether an argument is set while a training runs: of a function, or a known one."""
    if target == _LOADER:
        return name in _OF_LOADERS
    is_flag = target.startswith("torch.optim.") and name in _FLAGS
    return is_flag or not _owner(target)[:1].isupper()


def _owner(target: str) -> str:
    return target.rpartition(".")[2]
