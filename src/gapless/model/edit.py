"""Edits: what could be changed of a training, in five kinds that two interpreters know.

``payload.overlay`` lays them over a training while it starts; ``apply`` writes them into its
source. A named edit (``catalogue.fixes``) is data composed of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Where:
    """A line of the user's source."""

    file: str
    line: int
    function: str | None = None


@dataclass(frozen=True)
class SetArgument:
    """Calls of ``target`` get ``value`` for the argument ``name``, whatever they gave.

    ``target``: the qualified name of a function, method or class ("torch.optim.SGD"; a class
    stands for its construction, its subclasses' too). ``where``: only calls from that line.
    """

    target: str
    name: str
    value: Value
    where: Where | None = None


@dataclass(frozen=True)
class SetGlobal:
    """An attribute of a module is ``value``, or its setter was called with it, whatever is set."""

    target: str  # "torch.backends.cudnn.benchmark", "torch.set_num_threads"
    value: Value


@dataclass(frozen=True)
class SetEnv:
    """A variable of the environment, before Python starts; ``None``: it is not set."""

    name: str
    value: str | None


@dataclass(frozen=True)
class Wrap:
    """Something of ``target`` goes through a part of ours, by its name and with its options.

    Parts for the source are in ``gapless.parts``; those for trials only, in the overlay.
    """

    target: str
    part: str
    options: Mapping[str, Value] = field(default_factory=dict[str, Value])
    where: Where | None = None


@dataclass(frozen=True)
class Skip:
    """Calls of ``target`` do nothing and give ``None``; ``every``: but for each so manyth."""

    target: str
    every: int | None = None
    where: Where | None = None


Edit = SetArgument | SetGlobal | SetEnv | Wrap | Skip


class Applicability(StrEnum):
    """What an edit may change of the training beside its speed."""

    SAME = "same"  # equal to the bit, or as equal as two unedited runs
    EQUIVALENT = "equivalent"  # another random stream or order, or order of sums
    RISKY = "risky"  # precision, behaviour, crash semantics, compatibility
    MANUAL = "manual"  # another optimisation problem, or a person's decision: never done
    TRIAL = "trial"  # an ablation: measures a ceiling, is never a patch


@dataclass(frozen=True)
class Proposal:
    """A named edit for one run: what it would change, what for, and why it may not be done."""

    fix: str
    summary: str  # "num_workers 0 → 4"
    edits: tuple[Edit, ...]
    applicability: Applicability
    risk: str | None = None  # a sentence on what else it may change
    refused: str | None = None  # the reason, if it must not be done here
    where: Where | None = None


_KINDS: dict[type, str] = {
    SetArgument: "set_argument",
    SetGlobal: "set_global",
    SetEnv: "set_env",
    Wrap: "wrap",
    Skip: "skip",
}


def as_json(edit: Edit) -> dict[str, Any]:
    """Give an edit as JSON's object: its kind and its fields (what ``payload.overlay`` reads)."""
    values = {name: value for name, value in vars(edit).items() if name != "where"}
    where = getattr(edit, "where", None)
    if "options" in values:
        values["options"] = dict(values["options"])
    return {"kind": _KINDS[type(edit)], **values, "where": None if where is None else vars(where)}


def from_json(found: Mapping[str, Any]) -> Edit:
    """Give the edit that a JSON object tells of. Raises ``ValueError`` where it tells of none."""
    values = dict(found)
    kinds = {name: kind for kind, name in _KINDS.items()}
    kind = kinds.get(str(values.pop("kind", None)))
    if kind is None:
        raise ValueError(f"an edit has a kind, one of {', '.join(kinds)}")
    where = values.pop("where", None)
    if kind in {SetArgument, Wrap, Skip}:
        values["where"] = None if where is None else Where(**where)
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"no {_KINDS[kind]}: {error}") from None
