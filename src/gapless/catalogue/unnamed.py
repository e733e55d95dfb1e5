"""What a setting without a name may change: the traps and classes of the fixes hold for it too."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from gapless.catalogue.choosing import at, loaders, public
from gapless.catalogue.declare import Fix, Option, is_nothing, worst
from gapless.catalogue.listing import find
from gapless.catalogue.pages import described
from gapless.catalogue.parsing import parse
from gapless.catalogue.targets import ARGUMENTS, DDP, LOADER, OPTIMIZERS
from gapless.model.edit import (
    Applicability,
    Edit,
    Proposal,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Value,
    Where,
)
from gapless.model.facts import Facts

# Which fix decides on a setting: its name, and whether it takes the value.
_LOADERS: Final[dict[str, tuple[str, Callable[[Value], bool]]]] = {
    "num_workers": ("more-workers", lambda value: type(value) is int),
    "prefetch_factor": ("prefetch", lambda value: type(value) is int),
    "batch_size": ("batch-size", lambda value: type(value) is int),
    "pin_memory": ("pin-memory", lambda value: value is True),
    "persistent_workers": ("persistent-workers", lambda value: value is True),
    "in_order": ("out-of-order", lambda value: value is False),
}
_FAST: Final = {"foreach", "fused", "capturable"}  # what an optimizer has for speed alone
_HARMLESS: Final = {LOADER: {*_LOADERS, "timeout", "pin_memory_device"}, DDP: {*ARGUMENTS[DDP]}}
_MEANT: Final = {
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
_SETTINGS: Final[dict[tuple[str, Value], str]] = {
    ("torch.backends.cudnn.benchmark", True): "cudnn-benchmark",
    ("torch.backends.cuda.matmul.allow_tf32", True): "tf32",
    ("torch.set_float32_matmul_precision", "high"): "tf32",
}
_SKIPS: Final = {
    "torch.cuda.empty_cache": "no-empty-cache",
    "torch.cuda.synchronize": "no-synchronize",
}
_THREADS: Final = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
_TORCHS: Final = {f"torch.optim.{one}" for one in OPTIMIZERS}
_UNKNOWN: Final = "what else it changes is not known"


def propose(text: str, facts: Facts, *, override: bool = False) -> Proposal:
    """Give what ``--set`` of this text would change of a run, or why not. Raises ``UsageError``."""
    edit = _placed(parse(text, facts), facts)
    option = Option(override=override)
    judged = _judged(edit, facts, option)
    given = next((one for one in judged if one.refused is not None), None)
    whole = Proposal(text, described(edit), (), Applicability.RISKY)
    if given is not None:
        return replace(whole, refused=given.refused, where=given.where)
    changing = [one for one in judged if not is_nothing(one)]
    if not changing:
        why = "; ".join(dict.fromkeys(one.summary for one in judged))
        return replace(whole, summary=why, applicability=Applicability.SAME)
    return replace(
        whole,
        edits=_edits(edit, changing),
        applicability=worst(*(one.applicability for one in changing)),
        risk="; ".join(dict.fromkeys(one.risk for one in changing if one.risk)) or None,
    )


def _placed(edit: Edit, facts: Facts) -> Edit:
    """Give the edit with its line as the run recorded it: "train.py:41" in full."""
    if not isinstance(edit, SetArgument | Skip) or edit.where is None:
        return edit
    things = (*facts.loaders, *facts.optimizers, *facts.models, *facts.parallel)
    asked = _text(edit.where)
    found = next((one.where for one in things if at(one.where, asked)), None)
    if found is None and isinstance(edit, SetArgument) and edit.target == LOADER and facts.loaders:
        loaders(facts, Option(where=asked))  # says where there are some
    return edit if found is None else msgspec.structs.replace(edit, where=found)


def _edits(edit: Edit, judged: list[Proposal]) -> tuple[Edit, ...]:
    """Give the edit itself, and what a fix does beside it (no workers: no prefetching)."""
    beside = [one for proposal in judged for one in proposal.edits if not _same(one, edit)]
    return (edit, *dict.fromkeys(beside))


def _same(one: Edit, other: Edit) -> bool:
    if isinstance(one, SetArgument) and isinstance(other, SetArgument):
        return one.name == other.name
    return type(one) is type(other)


def _judged(edit: Edit, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Give what fixes say of the edit, one for each thing that it is about."""
    match edit:
        case SetArgument():
            return _of_argument(edit, facts, option)
        case SetGlobal():
            return _global(edit, facts, option)
        case Skip() if edit.every is None and edit.target in _SKIPS:
            return find(_SKIPS[edit.target])(facts, option)
        case SetEnv() if edit.name in _THREADS:
            return (_plain(edit, Applicability.EQUIVALENT, "sums are made in another order"),)
        case _:
            return (_plain(edit, Applicability.RISKY, _UNKNOWN),)


def _of_argument(edit: SetArgument, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    found: tuple[Proposal, ...] = ()
    if edit.target == LOADER:
        found = _of_loaders(edit, facts, option)
    elif edit.name in {"foreach", "fused"} and edit.value is True:
        found = _of_optimizers(edit, facts, option)
    elif edit.name == "set_to_none" and edit.value is True:
        found = find("set-to-none")(facts, option)
    return found or (_argument(edit, option),)


def _of_loaders(edit: SetArgument, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Ask for each loader that is meant: without a line those of evaluations are, too."""
    name, takes = _LOADERS.get(edit.name, ("", _never))
    meant = [one for one in facts.loaders if edit.where is None or at(one.where, _text(edit.where))]
    if not takes(edit.value) or not meant:
        return ()
    one, value = find(name), str(edit.value)
    asked = replace(option, value=None if one.value is None else value)
    return tuple(
        proposal
        for loader in meant
        for proposal in one(replace(facts, loaders=(replace(loader, trains=True),)), asked)
    )


def _of_optimizers(edit: SetArgument, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    kind = edit.target.rpartition(".")[2]
    meant = tuple(
        one
        for one in facts.optimizers
        if one.name.rpartition(".")[2] == kind
        and (edit.where is None or at(one.where, _text(edit.where)))
    )
    fix: Fix = find(edit.name)
    if meant:
        return fix(replace(facts, optimizers=meant), option)
    names = [public(one.name) for one in facts.optimizers]
    if names and edit.target in _TORCHS and all(one in _TORCHS for one in names):
        have = " and ".join(dict.fromkeys(one.rpartition(".")[2] for one in names))
        return (_refused(edit, f"no {kind} was seen: the run's optimizer is {have}"),)
    return ()


def _argument(edit: SetArgument, option: Option) -> Proposal:
    """Judge an argument that no fix knows: one that carries meaning needs ``--override``."""
    optimizer = edit.target in _TORCHS
    carries = edit.name not in _HARMLESS.get(edit.target, {edit.name})
    if carries or (optimizer and edit.name not in _FAST):
        if not option.override:
            return _refused(edit, f"{edit.name} carries meaning; --override changes it")
        return _plain(edit, Applicability.MANUAL, "another optimisation problem")
    return _plain(edit, Applicability.RISKY, _UNKNOWN)


def _global(edit: SetGlobal, facts: Facts, option: Option) -> tuple[Proposal, ...]:
    fix = _SETTINGS.get((edit.target, edit.value))
    if fix is not None:
        return find(fix)(facts, option)
    if edit.target == "torch.set_num_threads":
        return find("intra-op-threads")(facts, replace(option, value=str(edit.value)))
    if edit.target in _MEANT and not option.override:
        return (_refused(edit, f"{edit.target} carries meaning; --override changes it"),)
    return (_plain(edit, Applicability.RISKY, _UNKNOWN),)


def _plain(edit: Edit, applicability: Applicability, risk: str) -> Proposal:
    return Proposal("", described(edit), (edit,), applicability, risk)


def _refused(edit: Edit, why: str) -> Proposal:
    return Proposal("", described(edit), (), Applicability.RISKY, None, why)


def _text(where: Where) -> str:
    return f"{where.file}:{where.line}"


def _never(_value: Value) -> bool:
    return False
