"""What the measurements make of clocks."""

import ast
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gapless.probe import copies, data_files, session
from gapless.probe.figures import (
    ProbeConditions,
    RoundSeries,
    make_absent,
    make_figure,
    quantile,
    run_rounds,
)

PROBE = Path(session.__file__).parent
MEMORY = "/dev/shm"  # noqa: S108 - a file system in memory, if there is one
EMPTY_CONDITIONS = ProbeConditions(None, None, (), 1 << 20, 0.0)


def test_acts_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []

    def act(name: str) -> float:
        order.append(name)
        return len(order)

    series = run_rounds(
        {"a": lambda: act("a"), "b": lambda: act("b")}, time.monotonic() + 60, max_rounds=2
    )
    assert order == ["a", "b"] * 3
    assert (series["a"].values, series["b"].values) == ([3, 5], [4, 6])


def test_one_round_counts_however_late_it_is() -> None:
    series = run_rounds({"a": lambda: 7.0}, time.monotonic() - 1)
    assert series["a"].values == [7.0]


def test_a_figure_is_the_median_with_tenths_around_it() -> None:
    median_figure = make_figure("x", [float(number) for number in range(11)], [0.5] * 11, 4, "note")
    assert (median_figure.low, median_figure.value, median_figure.high) == (1.0, 5.0, 9.0)
    assert (
        median_figure.times,
        median_figure.spent_s,
        median_figure.at,
        median_figure.note,
        median_figure.why,
    ) == (
        11,
        5.5,
        4,
        "note",
        None,
    )


def test_one_round_has_no_spread() -> None:
    single_figure = make_figure("x", [3.0], 1.0)
    assert (single_figure.low, single_figure.value, single_figure.high) == (None, 3.0, None)


@pytest.mark.parametrize("values", [[], [0.0], [-2.0, -1.0, 5.0]])
def test_nothing_and_less_is_absent_with_a_reason(values: list[float]) -> None:
    absent_figure = make_figure("x", values, 1.0)
    assert absent_figure.value is None
    assert absent_figure.why


def test_quantiles_lie_between_values_in_proportion() -> None:
    assert quantile([10.0, 0.0], 0.25) == 2.5
    assert quantile([4.0], 0.9) == 4.0


def test_bandwidth_is_the_slope() -> None:
    by = {size: RoundSeries([5000 + size / 10] * 3, [0.1] * 3) for size in (4096, 1 << 20, 1 << 24)}
    (bandwidth,) = copies._fit_bandwidth("copy.h2d.pinned", by)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert bandwidth.value == pytest.approx(1e10)


def test_larger_copies_that_take_no_longer_give_no_bandwidth() -> None:
    by = {size: RoundSeries([100.0], [0.1]) for size in (4096, 1 << 20, 1 << 24)}
    (only_figure,) = copies._fit_bandwidth("copy.h2d.pinned", by)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert only_figure.value is None


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (None, "no GPU was asked for"),
        ({"why": "CUDA shows no GPU 3"}, "CUDA shows no GPU 3"),
        ({"free_bytes": 3 << 28}, "only 0.8 GiB of the GPU's memory is free"),
        ({"free_bytes": 3 << 30}, None),
        ({"free_bytes": None}, None),
    ],
)
def test_a_gpu_with_too_little_free_memory_is_left_alone(
    gpu: dict[str, object] | None, why: str | None
) -> None:
    assert session._refuse_gpu(gpu, 2 << 30) == why  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@pytest.mark.skipif(not Path(MEMORY).is_dir(), reason="no file system in memory")
def test_what_stays_in_memory_is_not_called_cold() -> None:
    with tempfile.NamedTemporaryFile(dir=MEMORY) as file:
        file.write(bytes(1 << 20))
        file.flush()
        conditions = EMPTY_CONDITIONS._replace(files=(file.name,), until=time.monotonic())
        figures = list(data_files.measure_reads(conditions))
    assert {figure.name for figure in figures if figure.value} == {
        "data.rate.warm",
        "data.file.warm",
    }
    assert {figure.why for figure in figures if not figure.value} == {
        "the kernel keeps it in memory"
    }


def test_files_are_read_in_order_too_where_numbers_of_readers_are_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 16))
    conditions = EMPTY_CONDITIONS._replace(files=(str(tmp_path / "file"),), readers=(1, 2))
    figures = list(data_files.measure_reads(conditions))
    assert "data.rate.ordered" in {figure.name for figure in figures if figure.value}
    assert {figure.at for figure in figures if figure.name == "data.rate.cold"} <= {1, 2, None}


def test_every_constant_is_declared_once_and_has_a_method() -> None:
    names = [name for measurement in session.MEASUREMENTS for name in measurement.units]
    assert len(names) == len(set(names))
    assert all(measurement.act.__doc__ for measurement in session.MEASUREMENTS)


def test_a_measurement_that_fails_says_why_and_keeps_what_it_had() -> None:
    def act(_: ProbeConditions):  # noqa: ANN202 - as the probe's own
        yield make_figure("a", [1.0], 1.0)
        raise OSError(5, "disk on fire")

    measurement = session.MEASUREMENTS[0]._replace(
        part_name="x", act=act, units={"a": "ns", "b": "ns"}, gpu=False, torch=False
    )
    state = session._ProbeState(None, None, time.monotonic() + 60, EMPTY_CONDITIONS)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    record = session._take_measurement(measurement, state, 1.0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    kept_figure, lost_figure = record["figures"]
    assert kept_figure["value"] == 1.0
    assert lost_figure == make_absent("b", "OSError: [Errno 5] disk on fire")._asdict()


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.name)
def test_the_probe_is_written_for_python_3_9_and_needs_torch_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }
    assert imported <= sys.stdlib_module_names | {"torch"}
