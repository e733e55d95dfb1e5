"""The plugin of pytest, on runs that are drawn in place of trainings."""

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from gapless import wire
from gapless.errors import UsageError
from gapless.launch.environment import RecorderSettings
from gapless.testing import measuring
from gapless.testing.limits import read_limits
from tests.store import drawing

pytest_plugins = ("pytester",)
MS: Final = 1_000_000
EXAMPLE: Final = Path(__file__).parents[2] / "examples/test_budgets.py"
MARKED: Final = """
import pytest
@pytest.mark.gapless_budget({})
def test_training(): {}
"""


class Training:
    """What the next recorded block does."""

    step_ms = 20
    wait_ms = 2
    steps = 60

    def write(self, folder: Path) -> None:
        step_ns = self.step_ms * MS
        steps = [
            drawing.step(number, (number + 1) * step_ns - MS, (number + 1) * step_ns)
            for number in range(self.steps)
        ]
        waits = [
            (wire.NEXT, 0, 0, 11, number * step_ns, number * step_ns + self.wait_ms * MS, number)
            for number in range(self.steps)
        ]
        loader = drawing.fact("loader", 0, batch_size=4, num_workers=0)
        log = b"".join(
            (
                drawing.process(start_ns=0, monotonic_ns=1),
                loader,
                drawing.marks(*sorted([*steps, *waits], key=lambda mark: mark[5])),
                wire.text_frame(wire.END, {"ns": (self.steps + 1) * step_ns, "how": "record"}),
            )
        )
        last_ns = (self.steps + 2) * step_ns
        drawing.write_run(folder, {"rank0.log": log}, started=0, ended=last_ns, folder=str(folder))


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    drawn = Training()

    @contextmanager
    def record(out: Path, settings: RecorderSettings) -> Generator[Path]:
        run = out / f"2027-run-{len(list(out.iterdir())):03d}"
        assert not settings.windows
        yield run
        drawn.write(run)

    monkeypatch.setattr(measuring, "record", record)
    monkeypatch.delenv(wire.SPOOL, raising=False)
    return drawn


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    plugin = ("-p", "no:gapless", "-p", "gapless.testing.plugin", "-p", "no:cacheprovider")
    return pytester.runpytest_inprocess(*plugin, *options)


def run_marked(pytester: pytest.Pytester, limits: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(MARKED.format(limits, "pass"))
    return run(pytester, *options)


def test_a_kept_budget_passes_and_is_printed(pytester: pytest.Pytester, training: Training) -> None:
    training.step_ms = 20
    result = run_marked(pytester, 'step="25 ms", data="15 %"')
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_training: step 20.00 ms (20.00 ms to 20.00 ms), at most 25 ms",
            "*test_training: data 10.0 % of a step, at most 15 %",
        ]
    )


def test_a_broken_budget_fails_in_words(pytester: pytest.Pytester, training: Training) -> None:
    training.wait_ms = 10
    result = run_marked(pytester, 'step="15 ms", data="15 %"')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "gapless: step 20.00 ms (20.00 ms to 20.00 ms), at most 15 ms",
            "gapless: data 50.0 % of a step, at most 15 %",
            "gapless: what it is spent on: gapless report *2027-run-000",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_block_is_measured_by_itself(pytester: pytest.Pytester, training: Training) -> None:
    training.step_ms = 20
    pytester.makepyfile(
        """
        def test_blocks(gapless_budget):
            with gapless_budget(step="25 ms") as run:
                assert run.name == "2027-run-000"
            with gapless_budget(step="10 ms"):
                pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["gapless: step 20.00 ms *, at most 10 ms"])


def test_what_a_test_raises_stays_its_own_failure(
    pytester: pytest.Pytester, training: Training
) -> None:
    training.step_ms = 20
    pytester.makepyfile(MARKED.format('step="1 ms"', "raise ValueError('mine')"))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ValueError: mine"])
    assert "at most" not in result.stdout.str()


def test_a_baseline_is_written_and_compared_with(
    pytester: pytest.Pytester, training: Training
) -> None:
    baseline = pytester.path / "gapless-budgets.json"
    result = run_marked(pytester, 'slower="10 %"')
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*; no baseline (pytest --gapless-update)"])
    assert not baseline.exists()
    result = run_marked(pytester, 'slower="10 %"', "--gapless-update")
    result.stdout.fnmatch_lines(["*gapless-budgets.json: written, 1 step"])
    training.step_ms = 21
    run_marked(pytester, 'slower="10 %"').assert_outcomes(passed=1)
    training.step_ms = 24
    result = run_marked(pytester, 'slower="10 %"')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["gapless: step *, +20.0 % on the baseline of 20.00 ms, at most +10 %"]
    )
    values = json.loads(baseline.read_text())
    values["tests"]["test_a_baseline_is_written_and_compared_with.py::test_training"]["machine"][
        "processor"
    ] = "another"
    baseline.write_text(json.dumps(values))
    result = run_marked(pytester, 'slower="10 %"')
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*; not compared: the baseline is of another *"])
    baseline.write_text("[]")
    run_marked(pytester, 'slower="10 %"').assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({}, "without a budget measures nothing"),
        ({"stepp": "1 ms"}, "nothing is called 'stepp'; did you mean 'step'?"),
        ({"step": "1 banana"}, "its unit is one of ns,"),
        ({"memory": "1 GB"}, "memory is not sampled in a test"),
        ({"syncs": -1}, "syncs = -1 is no number"),
        ({"slower": 3}, "slower = 3 is no share"),
    ],
)
def test_a_wrong_budget_is_refused(limits: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        read_limits(limits)


def test_a_wrong_budget_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        MARKED.format('"1 ms"', "pass") + MARKED.format("", "pass").replace("(): ", "_2(): ")
    )
    result = run(pytester)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*a budget has a name*", "*without a budget measures nothing*"])


def test_too_few_steps_are_no_measurement(pytester: pytest.Pytester, training: Training) -> None:
    training.steps = 12
    result = run_marked(pytester, 'step="25 ms"')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["gapless: of 12 steps 8 count, *; a budget needs 10: *"])


def test_a_recorded_session_is_not_measured(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.SPOOL, str(pytester.path))
    result = run_marked(pytester, 'step="25 ms"')
    result.stdout.fnmatch_lines(["*this test is recorded already*"])
    result.assert_outcomes(failed=1)


def test_tests_without_a_budget_import_nothing_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        def test_nothing(): assert {"numpy", "msgspec", "gapless.study"}.isdisjoint(sys.modules)
        """
    )
    options = ("-p", "no:gapless", "-p", "gapless.testing.plugin", "-p", "no:hypothesispytest")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1)
    assert "gapless budgets" not in result.stdout.str()


@pytest.mark.slow
def test_the_example_runs(pytester: pytest.Pytester) -> None:
    pytest.importorskip("torch")
    (pytester.path / EXAMPLE.name).write_text(EXAMPLE.read_text())
    options = ("-p", "no:gapless", "-p", "gapless.testing.plugin")
    result = pytester.run(sys.executable, "-m", "pytest", *options, EXAMPLE.name)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_the_loader_keeps_up: data * % of a step, at most 90 %"])
