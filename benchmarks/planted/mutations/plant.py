"""What a planted fault is: its change, and which answers name it, written down beforehand.

The codes are taken from the titles of the causes alone (the index of ``docs/rules.md``).
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.planted.places import loaders
from benchmarks.planted.source import (
    Change,
    Edited,
    Insertion,
    Source,
    Step,
    apply,
    header,
    step_of,
)

Where = Literal["line", "loader", "optimizer", "any"]
BOTH: Final = ("cpu", "cuda")
CPU: Final = ("cpu",)
CUDA: Final = ("cuda",)
DECOY: Final = "decoy"


@dataclass(frozen=True)
class Site:
    """A script as a plant sees it: source, how long a healthy step takes here, command line."""

    source: Source
    step_s: float
    device: str
    command: tuple[str, ...] = ()

    @property
    def step(self) -> Step | None:
        """Give the place at which it steps."""
        return step_of(self.source)


ChangeOf = Callable[[Site], Sequence[Change] | None]


@dataclass(frozen=True)
class Plant:
    """A fault or a decoy.

    ``codes`` and ``fixes`` name it; with ``at_line`` every cause does that names a planted line.
    ``where``: which lines may be named; ``lineless``: a cause without a line counts as well.
    """

    name: str
    family: str
    change: ChangeOf
    codes: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    where: Where = "line"
    devices: tuple[str, ...] = BOTH
    at_line: bool = False
    lineless: bool = True

    @property
    def decoy(self) -> bool:
        """Say whether it is meant to cost nothing."""
        return self.family == DECOY


@dataclass(frozen=True)
class Planted:
    """A changed script, the lines of what was planted, and the lines that it is about."""

    edited: Edited
    lines: tuple[int, ...]
    around: tuple[int, ...]


def plant(mutation: Plant, site: Site) -> Planted | None:
    """Give the script with the fault in it; ``None`` where it does not apply."""
    if site.device not in mutation.devices:
        return None
    changes = mutation.change(site)
    if not changes:
        return None
    edited = apply(site.source, changes)
    ast.parse(edited.text)  # what does not parse was planted wrongly: let it be seen
    around = tuple(edited.moved[line - 1] for line in _around(mutation, site))
    return Planted(edited, edited.lines, around)


def _around(mutation: Plant, site: Site) -> list[int]:
    """Give the lines of the construct that a fault is about: its loaders, loop or optimizer."""
    source, step = site.source, site.step
    loop = [step.loop.lineno] if step is not None and step.loop is not None else []
    if mutation.where == "loader":
        calls = loaders(source)
        return loop + [line for call in calls for line in _span(call)]
    if mutation.where == "optimizer":
        calls = optimizers(source)
        after = [step.after.lineno] if step is not None else []
        return after + [line for call in calls for line in _span(call)]
    return []


def _span(node: ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def optimizers(source: Source) -> list[ast.Call]:
    """Give the calls that make an optimizer of torch's."""
    names = ("Adam", "AdamW", "SGD", "RMSprop", "Adadelta", "Adagrad")
    return [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and source.segment(node.func).rsplit(".", 1)[-1] in names
        and (node.args or node.keywords)
    ]


def at_top(site: Site, text: str) -> Insertion:
    """Put lines behind the imports at the top."""
    return Insertion(header(site.source), text)


def before_backward(text: str, imports: str = "") -> ChangeOf:
    """Put lines before the backward pass of each step; ``{loss}`` is what is differentiated."""
    return _beside(text, behind=False, imports=imports)


def after_step(text: str, imports: str = "") -> ChangeOf:
    """Put lines behind the optimizer's step; ``{parameters}`` gives those it updates."""
    return _beside(text, behind=True, imports=imports)


def _beside(text: str, *, behind: bool, imports: str) -> ChangeOf:
    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        if step is None or ("{parameters}" in text and step.optimizer is None):
            return None
        anchor = step.after if behind else step.backward
        line = (anchor.end_lineno or anchor.lineno) + 1 if behind else anchor.lineno
        filled = filled_in(text, site)
        changes: list[Change] = [Insertion(line, filled, anchor.col_offset)]
        return [at_top(site, imports), *changes] if imports else changes

    return change


def filled_in(text: str, site: Site) -> str:
    """Fill in what a piece of code asks for: the loss, the parameters, amounts by step time."""
    step = site.step
    optimizer = step.optimizer if step is not None else None
    milliseconds = 1e3 * site.step_s
    values = {
        "loss": step.loss if step is not None else "0.0",
        "parameters": f'[p for g in {optimizer}.param_groups for p in g["params"]]',
        "sleep": f"{max(0.0005, 0.4 * site.step_s):.5f}",
        "turns": str(max(10_000, int(0.4 * milliseconds * 20_000))),
        "item": f"{max(0.0001, 0.5 * site.step_s / 32):.5f}",
        "tail": f"{max(0.005, 1.5 * site.step_s):.5f}",
        "each": str(max(500, int(0.5 * milliseconds * 20_000 / 32))),
        "values": str(max(500, int(0.5 * milliseconds * 30_000 / 32))),
        "seconds": f"{max(0.001, 0.4 * site.step_s):.5f}",
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
