"""Budgets: what the file may say, and when one is broken."""

from pathlib import Path

import pytest

from gapless.errors import UsageError
from gapless.gate.budgets import judge_budgets, needs_windows, read_file
from gapless.gate.figures import NEW, ArmFigures


def write(folder: Path, text: str) -> Path:
    path = folder / "gapless-gate.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_budgets_are_read_with_their_units(tmp_path: Path) -> None:
    gate_file = read_file(
        write(
            tmp_path,
            'command = ["python", "train.py"]\nagainst = "git:main"\n'
            '[budgets]\ndata = "5 %"\nstep = "310 ms"\nmemory = "70 GB"\n"idle.gc" = "2ms"\n',
        )
    )
    assert gate_file.command == ("python", "train.py")
    assert gate_file.against == "git:main"
    assert [(budget.name, budget.limit) for budget in gate_file.budgets] == [
        ("data", 0.05), ("step", 310e6), ("memory", 70e9), ("idle.gc", 2e6),
    ]  # fmt: skip
    assert needs_windows(gate_file.budgets)
    assert not needs_windows(gate_file.budgets[1:3])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[budgets", "is not TOML"),
        ("budget = 1", "there is no 'budget'"),
        ("budgets = 3", r"\[budgets\] is a table"),
        ('command = "python train.py"', "command is a list of words"),
        ("against = 3", "against is text"),
        ('[budgets]\ndatta = "5 %"', "did you mean 'data'"),
        ("[budgets]\ndata = 5", "data = 5 is no budget"),
        ('[budgets]\nstep = "5 %"', "its unit is one of ns"),
        ('[budgets]\nmemory = "5 ms"', "its unit is one of B"),
        ('[budgets]\ndata = "5 GB"', "its unit is one of %"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_file(write(tmp_path, text))


def arm(step_ns: float, data: float, *, windowed: bool) -> ArmFigures:
    leaves = {"idle.data.decode": data * step_ns, "busy.math": (1 - data) * step_ns}
    groups = {"data": data * step_ns, "compute": (1 - data) * step_ns}
    return ArmFigures(NEW, 0, (step_ns,), leaves, groups, windowed=windowed, memory=5_000_000_000)


def test_a_budget_is_broken_only_by_its_whole_interval(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[budgets]\ndata = "5 %"\nstep = "9 ms"\nmemory = "6 GB"\nunknown = "1 %"\n'
        '"idle.gc" = "1 ms"\ncompute = "93 %"\n',
    )
    arms = [
        *(arm(step_ns, 0.5, windowed=False) for step_ns in (8e6, 10e6, 11e6)),
        *(arm(10e6, data, windowed=True) for data in (0.070, 0.072, 0.071)),
    ]
    results = {
        result.budget.name: result for result in judge_budgets(read_file(path).budgets, arms)
    }
    assert [name for name, result in results.items() if result.is_broken] == ["data"]
    assert results["data"].mid == pytest.approx(0.071)
    assert not results["step"].is_kept  # it is not decided
    assert results["memory"].is_kept
    assert results["unknown"].is_kept


def test_a_single_arm_breaks_no_budget(tmp_path: Path) -> None:
    budgets = read_file(write(tmp_path, '[budgets]\ndata = "5 %"\n')).budgets
    (single,) = judge_budgets(budgets, [arm(10e6, 0.9, windowed=True)])
    (absent,) = judge_budgets(budgets, [arm(10e6, 0.9, windowed=False)])
    assert single.mid == pytest.approx(0.9)
    assert not single.is_broken
    assert absent.mid is None
