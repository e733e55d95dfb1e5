"""How much of something to plant, and at which places."""

import ast
import itertools
import re
from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.plant import (
    ChangeOf,
    Site,
    after_step,
    at_top,
    before_backward,
)
from benchmarks.planted.places import loaders, model_call
from benchmarks.planted.source import Change, Insertion, Replacement

_SHARE: Final = 0.7  # of a healthy step
_SIZES: Final = (
    re.compile(r"batch[-_]?size['\"][^\n]*?default\s*=\s*(\d+)", re.IGNORECASE),
    re.compile(r"batch[-_]?size['\"]?\s*[=:]\s*(\d+)", re.IGNORECASE),
)
_OPTIONS: Final = ("--batch-size", "--batch_size", "--batch", "-b")
_USUAL: Final = 32
_WORKERS: Final = re.compile(r"num_workers['\"]?\s*[=:]\s*(\d+)")


Unit = float | tuple[float, float]  # microseconds: on both devices, or on CPU and GPU


def amount(site: Site, unit_us: Unit, share: float = _SHARE, least: int = 1) -> int:
    """Give how many units of some microseconds each make a share of a healthy step."""
    each_us = unit_us[site.device == "cuda"] if isinstance(unit_us, tuple) else unit_us
    return max(least, int(share * site.step_s * 1e6 / each_us))


def batch_of(site: Site) -> int:
    """Guess how many samples a batch has."""
    for call in loaders(site.source)[:1]:
        given = [
            keyword.value for keyword in call.keywords if keyword.arg == "batch_size"
        ] or call.args[1:2]
        if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
            return given[0].value
    for option, value in itertools.pairwise(site.command):
        if option in _OPTIONS and value.isdecimal():
            return int(value)
    for pattern in _SIZES:
        found = pattern.search(site.source.text)
        if found is not None:
            return max(1, int(found.group(1)))
    return _USUAL


def item_amount(site: Site, unit_us: float, share: float = 0.8) -> int:
    """Give how many units to plant in each sample, more of them where workers share them."""
    call = site.source.segment(loaders(site.source)[0])
    found = _WORKERS.search(call if site.device == "cpu" else f"{call}\n{site.source.text}")
    workers = min(4, int(found.group(1))) if found is not None else 0
    return amount(site, unit_us, share * max(1.0, 1.5 * workers) / batch_of(site))


def behind(text: str, unit_us: Unit, imports: str = "") -> ChangeOf:
    """Put lines behind the optimizer's step, ``{n}`` times what takes some microseconds."""

    def change(site: Site) -> Sequence[Change] | None:
        return after_step(*_counted(site, unit_us, text, imports))(site)

    return change


def before(text: str, unit_us: Unit, imports: str = "") -> ChangeOf:
    """Put lines before the backward pass, ``{n}`` times what takes some microseconds."""

    def change(site: Site) -> Sequence[Change] | None:
        return before_backward(*_counted(site, unit_us, text, imports))(site)

    return change


def _counted(site: Site, unit_us: Unit, *texts: str) -> list[str]:
    number = str(amount(site, unit_us))
    return [text.replace("{n}", number) for text in texts]


def of_output(text: str, unit_us: Unit, imports: str = "") -> ChangeOf:
    """Put lines before the backward pass that look at what the model gave: ``{output}``."""

    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        hit = model_call(site.source, step) if step is not None else None
        if hit is None or not isinstance(hit[0], ast.Assign):
            return None
        target = hit[0].targets[0]
        name = target.elts[0] if isinstance(target, ast.Tuple) else target
        if not isinstance(name, ast.Name) or name.id == "_":
            return None
        return before(text.replace("{output}", name.id), unit_us, imports)(site)

    return change


def of_call(text: str, top: str, unit_us: Unit = 1.0, *, single: bool = False) -> ChangeOf:
    """Put another expression where the model is called: ``{model}`` and ``{arguments}``."""

    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        hit = model_call(site.source, step) if step is not None else None
        if hit is None or hit[1].keywords or (single and len(hit[1].args) != 1):
            return None
        arguments = [" ".join(site.source.segment(argument).split()) for argument in hit[1].args]
        if any(argument.startswith("*") for argument in arguments):
            return None
        model = site.source.segment(hit[1].func)
        new = text.replace("{model}", model).replace("{arguments}", ", ".join(arguments))
        number = str(amount(site, unit_us))
        return [at_top(site, top.replace("{n}", number)), Replacement(hit[1], new)]

    return change


def of_model(text: str, top: str, unit_us: Unit = 1.0, words: Sequence[str] = ()) -> ChangeOf:
    """Put lines before the model's call, where the script holds one of the words."""

    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        hit = model_call(site.source, step) if step is not None else None
        if hit is None or not _spoken(site, words):
            return None
        statement, call = hit
        new = text.replace("{model}", site.source.segment(call.func))
        number = str(amount(site, unit_us))
        return [
            at_top(site, top.replace("{n}", number)),
            Insertion(statement.lineno, new, statement.col_offset),
        ]

    return change


def top_where(text: str, words: Sequence[str]) -> ChangeOf:
    """Put lines behind the imports of a training whose script holds one of the words."""

    def change(site: Site) -> Sequence[Change] | None:
        return [at_top(site, text)] if site.step is not None and _spoken(site, words) else None

    return change


def _spoken(site: Site, words: Sequence[str]) -> bool:
    return not words or any(word in site.source.text for word in words)


def data_of(site: Site) -> tuple[ast.Call, ast.expr] | None:
    """Give the first loader, and the expression of its data set, if that has an index."""
    calls = loaders(site.source)
    if not calls or "IterableDataset" in site.source.text:
        return None
    named = [keyword.value for keyword in calls[0].keywords if keyword.arg == "dataset"]
    given = [*calls[0].args[:1], *named]
    return (calls[0], given[0]) if given and not isinstance(given[0], ast.Starred) else None


def flat(site: Site, node: ast.expr) -> str:
    """Give the text of an expression in one line."""
    return " ".join(row.split("#")[0].strip() for row in site.source.segment(node).splitlines())


def items(text: str, unit_us: float, top: str, words: Sequence[str] = ()) -> ChangeOf:
    """Wrap the data set of the first loader in one whose items do something more first."""

    def change(site: Site) -> Sequence[Change] | None:
        found = data_of(site)
        if found is None or not _spoken(site, words):
            return None
        kind = f"_Records{len(site.source.rows)}"  # others may be wrapped around it
        wrapper = (
            f"{top}\n\nclass {kind}:\n"
            "    def __init__(self, records):\n"
            "        self.records = records\n\n"
            "    def __len__(self):\n"
            "        return len(self.records)\n\n"
            "    def __getattr__(self, name):\n"
            "        return getattr(self.__dict__['records'], name)\n\n"
            "    def __getitem__(self, index):\n"
            + "".join(f"        {row}\n" for row in text.splitlines())
            + "        return self.records[index]\n"
        ).replace("{n}", str(item_amount(site, unit_us)))
        return [
            at_top(site, wrapper),
            Replacement(found[1], f"{kind}({flat(site, found[1])})"),
        ]

    return change
