"""How a cause that is named of a sound case is shown to cost something: what is changed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planted import changing
from benchmarks.planted.altering import check_effects, double_batches, propose_edits
from benchmarks.planted.changing import Subject, make_changes
from benchmarks.planted.counting import removing
from benchmarks.planted.running import COUNTING, REMOVED, Alteration, Lane, RunError
from benchmarks.planted.scripts import scripts
from gapless.catalogue.examples import example_facts
from gapless.catalogue.rules import RULES
from tests.store import drawing

TWO_OPTIMIZERS = """
import torch

first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
optimizers = [torch.optim.SGD(part.parameters(), 0.1) for part in (first, second)]
cut = []
for step in range(8):
    second.zero_grad()
    second(first(torch.ones(1, 2))).sum().backward()
    cut.append(first.weight.grad is None)
    optimizers[1].step()
    optimizers[0].zero_grad()
    second(first(torch.ones(1, 2))).sum().backward()
    optimizers[0].step()
    optimizers[0].zero_grad()
print(cut)
"""


def subject(code: str, name: str, tmp_path: Path, helps: tuple[str, ...] = ()) -> Subject:
    finding: dict[str, Any] = {"code": code, "name": name, "helps": helps}
    finding["where"] = {"file": "train.py", "line": 3}
    lane = Lane(0, (), "cpu", tmp_path)
    return Subject(next(iter(scripts().values())), finding, tmp_path, lane, 1.0, None)


@pytest.mark.parametrize(
    ("code", "name", "helps", "expected"),
    [
        ("G205", "unfused-optimizer", ("fused",), ["_apply_fixes"]),
        ("G513", "needless-gradients", (), ["_leave_out"]),
        ("G202", "python-bound", (), ["_double_batches", "_change_statement"]),
        ("G219", "costly-line", (), ["_change_statement"]),
    ],
)
def test_a_cause_is_taken_out_by_what_shows_it_best(
    code: str, name: str, helps: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    makers = [make.__name__ for make in make_changes(subject(code, name, tmp_path, helps))]
    assert makers == ["_apply_remedies", *expected]


def test_a_statement_goes_or_is_done_twice_and_python_at_it_can_only_be_disproved_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("a = 1\nfor _ in range(3):\n    print(a)\n")
    *_, change_statement = make_changes(subject("G202", "python-bound", tmp_path))
    without, twice = change_statement(subject("G202", "python-bound", tmp_path))
    assert (without.tells, twice.tells) == ("either", "false")
    assert without.edit is not None
    assert without.edit(tmp_path)
    assert "print" not in (tmp_path / "train.py").read_text()
    assert twice.without_cause(1.5, 1.0) == pytest.approx(0.5)


def test_fixes_are_those_that_can_be_applied_and_loaders_make_larger_batches() -> None:
    run_facts = example_facts.cpu(example_facts.loader(batch_size=4))
    edits = dict(propose_edits(("no-workers", "more-workers", "tf32"), run_facts))
    assert list(edits) == ["more-workers"]
    (edit,) = double_batches(run_facts)
    assert (edit["name"], edit["value"]) == ("batch_size", 8)


def test_an_altered_script_has_the_recorder_and_so_has_the_one_beside_it(tmp_path: Path) -> None:
    script, edit = next(iter(scripts().values())), {"kind": "set_env", "name": "A", "value": "1"}
    alterations = {tmp_path / "a": Alteration((edit,)), tmp_path / "b": Alteration(())}
    lane = Lane(0, (), "cpu", tmp_path, alterations=alterations)
    first, second, plain = (lane.counting_environment(script, tmp_path / name) for name in "abc")
    assert ("A" in first, "A" in second) == (True, False)
    assert "GAPLESS_OPTIONS" in second
    assert "GAPLESS_OPTIONS" not in plain
    assert str(COUNTING) in first["PYTHONPATH"]


def test_an_edit_without_effect_shows_nothing(tmp_path: Path) -> None:
    edits = ({"kind": "set_argument"}, {"kind": "set_env"}, {"kind": "wrap"})
    times_by_edit = {0: 3, 2: 0}
    facts = [drawing.fact("edit", key, edit=key, times=n) for key, n in times_by_edit.items()]
    (tmp_path / "rank0.log").write_bytes(b"".join([drawing.process(), *facts]))
    check_effects(tmp_path, Alteration(edits[:2]))
    with pytest.raises(RunError, match="wrap"):
        check_effects(tmp_path, Alteration(edits))
    with pytest.raises(RunError, match="needless-gradients"):
        check_effects(tmp_path, Alteration(removal="needless-gradients"))


def test_gradients_that_no_optimizer_steps_with_are_left_out_once_that_is_known(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    environment = {"PYTHONPATH": str(COUNTING), "PLANTED_REMOVAL": "needless-gradients"}
    environment |= {
        "PLANTED_STREAM": str(tmp_path / "stream"),
        "PLANTED_REMOVED": str(tmp_path / REMOVED),
    }
    process = subprocess.run(
        [sys.executable, "-c", TWO_OPTIMIZERS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == str([False] * 6 + [True] * 2)
    assert (tmp_path / "stream").stat().st_size
    check_effects(tmp_path, Alteration(removal="needless-gradients"))


def test_what_is_left_out_is_known_by_the_slug_of_its_cause() -> None:
    assert set(removing.REMOVALS) == changing.REMOVALS  # pyright: ignore[reportUnknownArgumentType]
    assert {rule.name for rule in RULES} >= changing.REMOVALS
