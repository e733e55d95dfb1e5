"""Budgets: what a step, a leaf of the account or the memory may take, and whether it does."""

import math
import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from gapless.errors import UsageError
from gapless.gate.figures import ArmFigures
from gapless.model.leaf import GROUPS, LEAVES
from gapless.verify.arms.compare import student_quantile

FILE: Final = "gapless-gate.toml"
STEP: Final = "step"
MEMORY: Final = "memory"
SHARE: Final = "%"
_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ%]+)\s*")
_TIMES: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_SIZES: Final = {
    "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
}  # fmt: skip
_KEYS: Final = ("command", "against", "budgets")
_EXAMPLE: Final = 'for example data = "5 %", step = "310 ms" or memory = "70 GB"'


class Budget(Struct, frozen=True):
    """The most that something may take: ns of a step, bytes, or a share of a step."""

    name: str  # STEP, MEMORY, a leaf or a group of the account
    limit: float
    unit: str  # SHARE: limit is a fraction; "ns"; "B"
    text: str  # as written


class GateFile(Struct, frozen=True):
    """What the file of a gate says."""

    command: tuple[str, ...] = ()
    against: str | None = None
    budgets: tuple[Budget, ...] = ()


class BudgetResult(Struct, frozen=True):
    """What was measured of a budget; broken only if its whole interval lies beyond the limit."""

    budget: Budget
    low: float | None  # 95 % interval; None: one arm has no spread
    mid: float | None  # None: not observed
    high: float | None

    @property
    def is_broken(self) -> bool:
        """Return whether it is proven that the budget does not suffice."""
        return self.low is not None and self.low > self.budget.limit

    @property
    def is_kept(self) -> bool:
        """Return whether the whole interval lies within the budget."""
        return self.high is not None and self.high <= self.budget.limit


def read_file(path: Path) -> GateFile:
    """Return what a gate's file says. Raises ``UsageError`` with the file and what is wrong."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    for key in values.keys() - set(_KEYS):
        raise UsageError(f"{path}: there is no {key!r}; there are: {', '.join(_KEYS)}")
    table = values.get("budgets", {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [budgets] is a table; {_EXAMPLE}")
    budgets = cast("dict[str, object]", table)
    against = values.get("against")
    if against is not None and not isinstance(against, str):
        raise UsageError(f'{path}: against is text, such as "git:main"')
    return GateFile(
        _read_command(path, values.get("command", [])),
        against,
        tuple(read_budget(str(path), name, text) for name, text in budgets.items()),
    )


def needs_windows(budgets: Sequence[Budget]) -> bool:
    """Return whether any budget is of the account, which windows split."""
    return any(budget.name not in {STEP, MEMORY} for budget in budgets)


def judge_budgets(
    budgets: Sequence[Budget], arms: Sequence[ArmFigures]
) -> tuple[BudgetResult, ...]:
    """Judge budgets by arms of the new side: those of the account by the arms with windows."""
    return tuple(_judge(budget, arms) for budget in budgets)


def _judge(budget: Budget, arms: Sequence[ArmFigures]) -> BudgetResult:
    values = [value for arm in arms if (value := _measure(budget, arm)) is not None]
    if not values:
        return BudgetResult(budget, None, None, None)
    mid = sum(values) / len(values)
    if len(values) == 1:
        return BudgetResult(budget, None, mid, None)
    spread = math.sqrt(sum((value - mid) ** 2 for value in values) / (len(values) - 1))
    half_width = student_quantile(len(values) - 1) * spread / math.sqrt(len(values))
    return BudgetResult(budget, mid - half_width, mid, mid + half_width)


def _measure(budget: Budget, arm: ArmFigures) -> float | None:
    if budget.name == MEMORY:
        return arm.memory
    if budget.name == STEP:
        return arm.step_ns if arm.blocks and not arm.windowed else None
    total_ns = sum(arm.leaves.values())
    if not arm.windowed or not total_ns:
        return None
    charges = arm.groups if budget.name in GROUPS else arm.leaves
    ns = charges.get(budget.name, 0.0)
    return ns / total_ns if budget.unit == SHARE else ns


def _read_command(path: Path, words: object) -> tuple[str, ...]:
    texts = cast("list[object]", words) if isinstance(words, list) else [None]
    if not all(isinstance(word, str) for word in texts):
        raise UsageError(f'{path}: command is a list of words: ["python", "train.py"]')
    return tuple(map(str, texts))


def read_budget(source: str, name: str, text: object) -> Budget:
    """Return a budget that is written somewhere. Raises ``UsageError``, which begins with where."""
    names = (STEP, MEMORY, *GROUPS, *LEAVES)
    if name not in names:
        close = get_close_matches(name, names, n=1)
        choices = f"there are step, memory, {', '.join(GROUPS)} and the leaves of the account"
        hint = f"did you mean {close[0]!r}?" if close else choices
        raise UsageError(f"{source}: nothing is called {name!r}; {hint}")
    matched = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if matched is None or not isinstance(text, str):
        raise UsageError(f"{source}: {name} = {text!r} is no budget; {_EXAMPLE}")
    number, unit = float(matched[1]), matched[2]
    if name == MEMORY and unit in _SIZES:
        return Budget(name, number * _SIZES[unit], "B", text)
    if name != MEMORY and unit in _TIMES:
        return Budget(name, number * _TIMES[unit], "ns", text)
    if name not in {MEMORY, STEP} and unit == SHARE:
        return Budget(name, number / 100, SHARE, text)
    units = _SIZES if name == MEMORY else _TIMES if name == STEP else (SHARE, *_TIMES)
    raise UsageError(f"{source}: {name} = {text!r}: its unit is one of {', '.join(units)}")
