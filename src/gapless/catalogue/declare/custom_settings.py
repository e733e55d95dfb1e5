"""What ``--set`` may change: the traps and applicability classes of the fixes hold here too."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from gapless.catalogue.declare.fix import (
    Fix,
    Option,
    changes_nothing,
    describe_edit,
    worst_applicability,
)
from gapless.catalogue.declare.listing import find_fix
from gapless.catalogue.declare.parsing import parse_setting
from gapless.catalogue.declare.selectors import is_at_line, public_name, select_loaders
from gapless.catalogue.declare.targets import ARGUMENTS, DDP, LOADER, OPTIMIZERS
from gapless.model.edit import (
    Applicability,
    Edit,
    Location,
    Proposal,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Value,
)
from gapless.model.facts import Facts

# The fix that decides on a setting: its name, and whether it takes the value.
_LOADER_FIXES: Final[dict[str, tuple[str, Callable[[Value], bool]]]] = {
    "num_workers": ("more-workers", lambda value: type(value) is int),
    "prefetch_factor": ("prefetch", lambda value: type(value) is int),
    "batch_size": ("batch-size", lambda value: type(value) is int),
    "pin_memory": ("pin-memory", lambda value: value is True),
    "persistent_workers": ("persistent-workers", lambda value: value is True),
    "in_order": ("out-of-order", lambda value: value is False),
}
_SPEED_ARGUMENTS: Final = {
    "foreach",
    "fused",
    "capturable",
}  # arguments of optimizers that affect speed alone
_HARMLESS_ARGUMENTS: Final = {
    LOADER: {*_LOADER_FIXES, "timeout", "pin_memory_device"},
    DDP: {*ARGUMENTS[DDP]},
}
_MEANINGFUL_SETTINGS: Final = {
    "torch.autograd.set_detect_anomaly",
    "numpy.random.seed",
    "random.seed",
    "torch.backends.cudnn.deterministic",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.manual_seed",
    "torch.set_default_dtype",
    "torch.use_deterministic_algorithms",
}
_SETTING_FIXES: Final[dict[tuple[str, Value], str]] = {
    ("torch.backends.cudnn.benchmark", True): "cudnn-benchmark",
    ("torch.backends.cuda.matmul.allow_tf32", True): "tf32",
    ("torch.set_float32_matmul_precision", "high"): "tf32",
}
_SKIP_FIXES: Final = {
    "torch.cuda.empty_cache": "no-empty-cache",
    "torch.cuda.synchronize": "no-synchronize",
}
_THREAD_VARIABLES: Final = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
_TORCH_OPTIMIZERS: Final = {f"torch.optim.{name}" for name in OPTIMIZERS}
_UNKNOWN_RISK: Final = "what else it changes is not known"


def propose_setting(text: str, facts: Facts, *, override: bool = False) -> Proposal:
    """Return what ``--set TEXT`` would change in a run, or why not. Raises ``UsageError``."""
    edit = _resolve_line(parse_setting(text, facts), facts)
    option = Option(override=override)
    proposals = _judge_edit(edit, facts, option)
    refusal = next((proposal for proposal in proposals if proposal.refused is not None), None)
    combined = Proposal(text, describe_edit(edit), (), Applicability.RISKY)
    if refusal is not None:
        return replace(combined, refused=refusal.refused, location=refusal.location)
    effective = [proposal for proposal in proposals if not changes_nothing(proposal)]
    if not effective:
        reason = "; ".join(dict.fromkeys(proposal.summary for proposal in proposals))
        return replace(combined, summary=reason, applicability=Applicability.IDENTICAL)
    return replace(
        combined,
        edits=_combine_edits(edit, effective),
        applicability=worst_applicability(*(proposal.applicability for proposal in effective)),
        risk="; ".join(dict.fromkeys(proposal.risk for proposal in effective if proposal.risk))
        or None,
    )


def _resolve_line(edit: Edit, facts: Facts) -> Edit:
    """Return the edit with its line as the run recorded it, with the full path."""
    if not isinstance(edit, SetArgument | Skip) or edit.where is None:
        return edit
    targets = (*facts.loaders, *facts.optimizers, *facts.models, *facts.parallel)
    line_ref = _format_line_ref(edit.where)
    location = next(
        (target.location for target in targets if is_at_line(target.location, line_ref)), None
    )
    if (
        location is None
        and isinstance(edit, SetArgument)
        and edit.target == LOADER
        and facts.loaders
    ):
        select_loaders(facts, Option(line_ref=line_ref))  # raises, naming the lines
    return edit if location is None else msgspec.structs.replace(edit, where=location)


def _combine_edits(edit: Edit, proposals: list[Proposal]) -> tuple[Edit, ...]:
    """Return the edit, and those that a fix makes along with it (no workers: no prefetching)."""
    extra_edits = [
        extra
        for proposal in proposals
        for extra in proposal.edits
        if not _is_same_setting(extra, edit)
    ]
    return (edit, *dict.fromkeys(extra_edits))


def _is_same_setting(edit: Edit, judged: Edit) -> bool:
    if isinstance(edit, SetArgument) and isinstance(judged, SetArgument):
        return edit.name == judged.name
    return type(edit) is type(judged)


def _judge_edit(edit: Edit, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Return the proposals of the fixes for the edit, one for each object that it changes."""
    match edit:
        case SetArgument():
            return _judge_argument(edit, facts, option)
        case SetGlobal():
            return _judge_global(edit, facts, option)
        case Skip() if edit.every is None and edit.target in _SKIP_FIXES:
            return find_fix(_SKIP_FIXES[edit.target])(facts, option)
        case SetEnv() if edit.name in _THREAD_VARIABLES:
            return (
                _propose_edit(edit, Applicability.EQUIVALENT, "sums are made in another order"),
            )
        case _:
            return (_propose_edit(edit, Applicability.RISKY, _UNKNOWN_RISK),)


def _judge_argument(edit: SetArgument, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    proposals: tuple[Proposal, ...] = ()
    if edit.target == LOADER:
        proposals = _judge_loaders(edit, facts, option)
    elif edit.name in {"foreach", "fused"} and edit.value is True:
        proposals = _judge_optimizers(edit, facts, option)
    elif edit.name == "set_to_none" and edit.value is True:
        proposals = find_fix("set-to-none")(facts, option)
    return proposals or (_judge_other_argument(edit, option),)


def _judge_loaders(edit: SetArgument, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Judge the edit for each loader that it selects; without a line, also those of evaluations."""
    name, accepts = _LOADER_FIXES.get(edit.name, ("", _accepts_none))
    targets = [
        target
        for target in facts.loaders
        if edit.where is None or is_at_line(target.location, _format_line_ref(edit.where))
    ]
    if not accepts(edit.value) or not targets:
        return ()
    fix, value = find_fix(name), str(edit.value)
    fix_option = replace(option, value=None if fix.value is None else value)
    return tuple(
        proposal
        for loader in targets
        for proposal in fix(replace(facts, loaders=(replace(loader, trains=True),)), fix_option)
    )


def _judge_optimizers(edit: SetArgument, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    kind = edit.target.rpartition(".")[2]
    targets = tuple(
        target
        for target in facts.optimizers
        if target.name.rpartition(".")[2] == kind
        and (edit.where is None or is_at_line(target.location, _format_line_ref(edit.where)))
    )
    fix: Fix = find_fix(edit.name)
    if targets:
        return fix(replace(facts, optimizers=targets), option)
    names = [public_name(optimizer.name) for optimizer in facts.optimizers]
    if (
        names
        and edit.target in _TORCH_OPTIMIZERS
        and all(name in _TORCH_OPTIMIZERS for name in names)
    ):
        class_names = " and ".join(dict.fromkeys(name.rpartition(".")[2] for name in names))
        return (_refuse_edit(edit, f"no {kind} was seen: the run's optimizer is {class_names}"),)
    return ()


def _judge_other_argument(edit: SetArgument, option: Option) -> Proposal:
    """Judge an argument that no fix covers: one that changes results needs ``--override``."""
    is_optimizer = edit.target in _TORCH_OPTIMIZERS
    has_meaning = edit.name not in _HARMLESS_ARGUMENTS.get(edit.target, {edit.name})
    if has_meaning or (is_optimizer and edit.name not in _SPEED_ARGUMENTS):
        if not option.override:
            return _refuse_edit(edit, f"{edit.name} carries meaning; --override changes it")
        return _propose_edit(edit, Applicability.MANUAL, "another optimisation problem")
    return _propose_edit(edit, Applicability.RISKY, _UNKNOWN_RISK)


def _judge_global(edit: SetGlobal, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    fix = _SETTING_FIXES.get((edit.target, edit.value))
    if fix is not None:
        return find_fix(fix)(facts, option)
    if edit.target == "torch.set_num_threads":
        return find_fix("intra-op-threads")(facts, replace(option, value=str(edit.value)))
    if edit.target in _MEANINGFUL_SETTINGS and not option.override:
        return (_refuse_edit(edit, f"{edit.target} carries meaning; --override changes it"),)
    return (_propose_edit(edit, Applicability.RISKY, _UNKNOWN_RISK),)


def _propose_edit(edit: Edit, applicability: Applicability, risk: str) -> Proposal:
    return Proposal("", describe_edit(edit), (edit,), applicability, risk)


def _refuse_edit(edit: Edit, reason: str) -> Proposal:
    return Proposal("", describe_edit(edit), (), Applicability.RISKY, None, reason)


def _format_line_ref(location: Location) -> str:
    return f"{location.file}:{location.line}"


def _accepts_none(_value: Value) -> bool:
    return False
