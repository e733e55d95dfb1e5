"""What pytest loads by the entry point ``pytest11``: it imports nothing until a test has a budget.

@pytest.mark.gapless_budget(step="20 ms", data="5 %")
def test_training_is_quick():
train(steps=60)

def test_loader_keeps_up(gapless_budget):
model = build_model()
with gapless_budget(data="5 %"):
train(model, steps=60)
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from gapless.testing.limits import Limits

_NAME: Final = "gapless_budget"  # of the marker, the fixture, and what reports carry of them
_HELP: Final = (
    'gapless_budget(step="20 ms", data="5 %", syncs=0, slower="10 %"): record what the test trains '
    "and fail it where that takes more"
)
_UPDATE: Final = "--gapless-update"
_BASELINE: Final = "--gapless-baseline"
_FOLDER: Final = "gapless-runs"
Budgeting = Callable[..., AbstractContextManager[Path]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of budgets."""
    group = parser.getgroup("gapless", "budgets of what tests train")
    group.addoption(
        _UPDATE, action="store_true", help="write the steps of tests with slower= as the baseline"
    )
    group.addoption(
        _BASELINE,
        metavar="JSON",
        help="the baseline of slower= (gapless-budgets.json in pytest's root folder)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and what prints the figures at the end."""
    config.addinivalue_line("markers", _HELP)
    config.pluginmanager.register(BudgetSummary(config), "gapless-budget-summary")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test that is marked, as a whole."""
    marker = item.get_closest_marker(_NAME)
    if marker is None:
        return (yield)
    if marker.args:
        pytest.fail(f"a budget has a name: {_HELP}", pytrace=False)
    with _hold_budget(item, marker.kwargs):
        return (yield)


@pytest.fixture
def gapless_budget(request: pytest.FixtureRequest) -> Budgeting:
    """Return what measures a block of a test, in a ``with`` statement."""
    item: pytest.Item = request.node

    def budget(**limits: object) -> AbstractContextManager[Path]:
        return _hold_budget(item, limits)

    return budget


@contextmanager
def _hold_budget(item: pytest.Item, values: Mapping[str, object]) -> Generator[Path]:
    """Measure a block, and fail the test with a sentence for each budget that it breaks."""
    from gapless.testing.limits import read_limits
    from gapless.testing.measuring import record_block

    with ExitStack() as stack:
        with _failing_in_words():
            limits = read_limits(values)
            run = stack.enter_context(record_block(limits, _runs_folder(item)))
        yield run
    with _failing_in_words():
        broken_limits = _judge(item, limits, run)
    if broken_limits:
        lines = (*broken_limits, f"what it is spent on: gapless report {run}")
        pytest.fail("\n".join(f"gapless: {line}" for line in lines), pytrace=False)


@contextmanager
def _failing_in_words() -> Generator[None]:
    """Turn what gapless says into the failure of a test, without a traceback."""
    from gapless.errors import GaplessError

    try:
        yield
    except GaplessError as error:
        pytest.fail(f"gapless: {error}", pytrace=False)


def _judge(item: pytest.Item, limits: "Limits", run: Path) -> list[str]:
    """Judge a recorded block, note what was measured, and return what is broken."""
    import msgspec

    from gapless.store.run.recordings import load
    from gapless.testing.judging import judge_block
    from gapless.testing.measuring import read_block
    from gapless.testing.stored import StoredStep, read_steps_file

    figures = read_block(load(run), limits)
    is_updated = limits.slower is not None and bool(item.config.getoption(_UPDATE))
    step = StoredStep(figures.machine, figures.step_ns, figures.low_ns, figures.high_ns)
    stored_step = step if is_updated else None
    if limits.slower is not None and not is_updated:
        stored_step = read_steps_file(_baseline_path(item.config)).get(item.nodeid)
    results = judge_block(limits, figures, stored_step)
    note = {
        "test": item.nodeid,
        "lines": [result.text for result in results],
        "step": msgspec.to_builtins(step) if is_updated else None,
    }
    item.user_properties.append((_NAME, note))
    return [result.text for result in results if result.is_broken]


def _runs_folder(item: pytest.Item) -> Path:
    """Return the folder of runs of this session, which pytest keeps as long as other ones."""
    factory: Any = getattr(item.config, "_tmp_path_factory")  # noqa: B009 - as its fixture does
    folder: Path = factory.getbasetemp() / _FOLDER
    folder.mkdir(exist_ok=True)
    return folder


def _baseline_path(config: pytest.Config) -> Path:
    from gapless.testing.stored import FILE

    return Path(config.getoption(_BASELINE) or config.rootpath / FILE)


class BudgetSummary:
    """What budgets measured, printed behind the tests; the baseline is written here."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._notes: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what a test measured; xdist's workers send it with their reports."""
        if report.when == "call":
            notes: list[Any] = [value for name, value in report.user_properties if name == _NAME]
            self._notes.extend(notes)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the figures of each test, and write the baseline if that was asked for."""
        if not self._notes:
            return
        terminalreporter.section("gapless budgets")
        for note in self._notes:
            for line in note["lines"]:
                terminalreporter.write_line(f"{note['test']}: {line}")
        steps = {note["test"]: note["step"] for note in self._notes if note["step"] is not None}
        if steps:
            terminalreporter.write_line(self._write_baseline(steps))

    def _write_baseline(self, steps: dict[str, Any]) -> str:
        import msgspec

        from gapless.errors import GaplessError
        from gapless.testing.stored import StoredStep, update_steps_file

        path = _baseline_path(self._config)
        stored_steps = msgspec.convert(steps, type=dict[str, StoredStep])
        try:
            update_steps_file(path, stored_steps)
        except GaplessError as error:
            return f"gapless: {error}"
        return f"{path}: written, {len(steps)} step{'s' * (len(steps) > 1)}"
