"""Edits: what could be changed of a training, in five kinds that two interpreters know.

``payload.overlay`` applies them to a training while it starts; ``commands.apply`` writes them into
its source. A named edit (``catalogue.fixes``) is data composed of them.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from gapless.model.estimate import Estimate

Value = bool | int | float | str | None


class Location(Struct, frozen=True):
    """A line of the user's source."""

    file: str
    line: int
    function: str | None = None


def short_path(file: str) -> str:
    """Return a file's name; with its package, or the folder that its path begins at, if any."""
    path = file.replace("\\", "/")
    *folders, name = re.split(r"(?:^|/)(?:site|dist)-packages/", path)[-1].split("/")
    if not folders or not folders[0].isidentifier():
        return name
    return "/".join((folders[0], *("…" for _ in folders[1:2]), name))


class SetArgument(msgspec.Struct, frozen=True, tag="set_argument", tag_field="kind"):
    """Calls of ``target`` get ``value`` for the argument ``name``, whatever they passed.

    ``target``: the qualified name of a function, method or class ("torch.optim.SGD"; a class
    stands for its construction, its subclasses' too). ``location``: only calls from that line.
    """

    target: str
    name: str
    value: Value
    where: Location | None = None


class SetGlobal(msgspec.Struct, frozen=True, tag="set_global", tag_field="kind"):
    """An attribute of a module is ``value``, or its setter was called with it, whatever is set."""

    target: str  # "torch.backends.cudnn.benchmark", "torch.set_num_threads"
    value: Value


class SetEnv(msgspec.Struct, frozen=True, tag="set_env", tag_field="kind"):
    """A variable of the environment, before Python starts; ``None``: it is not set."""

    name: str
    value: str | None


class Wrap(msgspec.Struct, frozen=True, tag="wrap", tag_field="kind"):
    """Something of ``target`` goes through a part of ours, by its name and with its options.

    Parts for the source are in ``gapless.parts``; those for trials only, in the overlay.
    """

    target: str
    part: str
    options: Mapping[str, Value] = msgspec.field(default_factory=dict[str, Value])
    where: Location | None = None


class Skip(msgspec.Struct, frozen=True, tag="skip", tag_field="kind"):
    """Calls of ``target`` do nothing and return ``None``; ``every``: all but every n-th."""

    target: str
    every: int | None = None
    where: Location | None = None


Edit = SetArgument | SetGlobal | SetEnv | Wrap | Skip


class Applicability(StrEnum):
    """What an edit may change of the training beside its speed."""

    IDENTICAL = "same"  # equal to the bit, or as equal as two unedited runs
    EQUIVALENT = "equivalent"  # another random stream or order, or order of sums
    RISKY = "risky"  # precision, behaviour, crash semantics, compatibility
    MANUAL = "manual"  # another optimisation problem, or a person's decision: never done
    ABLATION = "trial"  # an ablation: measures a ceiling, is never a patch


class FixRequest(Struct, frozen=True):
    """A fix by name, with the value and the line that it is asked for."""

    fix: str
    value: str | None = None  # None: what the fix finds best
    line_ref: str | None = None  # "train.py:41"; None: all lines

    def __str__(self) -> str:
        """Return it as ``gapless try --fix`` takes it: "more-workers@train.py:41=8"."""
        suffix = "" if self.line_ref is None else f"@{self.line_ref}"
        return f"{self.fix}{suffix}" + ("" if self.value is None else f"={self.value}")


class Outcome(Struct, frozen=True):
    """Where the time of an un-profiled step would go with an edit: ns by group, summing exactly."""

    step_ns: int
    groups: Mapping[str, int]


class Proposal(Struct, frozen=True):
    """A named edit for one run: what it would change, what for, and why it may not be done."""

    fix: str
    summary: str  # "num_workers 0 → 4"
    edits: tuple[Edit, ...]
    applicability: Applicability
    risk: str | None = None  # a sentence on what else it may change
    refused: str | None = None  # the reason, if it must not be done here
    location: Location | None = None
    remedies: tuple[str, ...] = ()  # codes of the findings that it helps against
    speedup: Estimate | None = None  # predicted; None: it is not
    calibrated: bool = False  # the interval is
    unpredicted: str | None = None  # why it is not predicted
    at_most: Estimate | None = None  # what it would bring if nothing were left of its stages
    after: tuple[str, ...] = ()  # other fixes, with which together it was predicted as well
    together: Estimate | None = None  # what they and this one bring, replayed together
    outcome: Outcome | None = None  # where a step would go with this one alone; None: not replayed
    value: str | None = None  # that it was requested with


def edit_to_json(edit: Edit) -> dict[str, Any]:
    """Return an edit as JSON's object: its kind and its fields (what ``payload.overlay`` reads)."""
    return msgspec.to_builtins(edit)


def edit_from_json(document: object) -> Edit:
    """Return the edit that a JSON object describes. Raises ``ValueError`` if it describes none."""
    try:
        return msgspec.convert(document, type=Edit)
    except msgspec.ValidationError as error:
        raise ValueError(f"that is no edit: {error}") from None
