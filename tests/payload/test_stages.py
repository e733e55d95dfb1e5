"""What stands in for a function of a stage, the purse that pays for looking, and the kernel."""

from __future__ import annotations

import builtins
import inspect
import io
import os
import pickle
import threading
import time
import types
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless.payload import patching
from gapless.payload.hooks import stages
from gapless.payload.loading import measure, pacing, reads, stopwatch
from gapless.payload.loading.stopwatch import (
    AUGMENT,
    DECODE,
    OTHER,
    READ,
    Stopwatch,
    running,
    time_function,
)
from gapless.payload.process_state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


FILES = Path("/proc/self/fd")


def spin(seconds: float) -> float:
    """Use so much of a processor; give how much it was, in ns."""
    start_s = time.thread_time()
    while (spent_s := time.thread_time() - start_s) < seconds:
        pass
    return 1e9 * spent_s


def twice(value: Any) -> Any:  # noqa: ANN401 - a tensor
    return once(value) + once(value) - 1


def once(value: Any) -> Any:  # noqa: ANN401 - a tensor
    return value + 1


def example(number: int, *, second: str = "x") -> tuple[int, str]:
    """Return both back."""
    if number < 0:
        raise ValueError("negative")
    return number, second


@pytest.fixture
def watch() -> Iterator[Stopwatch]:
    new_watch = Stopwatch()
    new_watch.start(time.monotonic_ns(), time.thread_time_ns())
    reads.begin(new_watch)
    yield new_watch
    reads.finish()


def test_a_stage_within_a_stage_takes_its_own_time(watch: Stopwatch) -> None:
    decode = time_function(lambda: spin(0.02), DECODE)
    augment = time_function(lambda: (spin(0.01), decode(), spin(0.01)), AUGMENT)
    lead_ns, decode_ns, tail_ns = augment()
    watch.stop(time.monotonic_ns(), time.thread_time_ns())
    assert watch.cpu[DECODE] == pytest.approx(decode_ns, rel=0.2)
    assert watch.cpu[AUGMENT] == pytest.approx(lead_ns + tail_ns, rel=0.2)
    assert watch.stage == OTHER


def test_a_conversion_while_augmenting_is_augmentation(watch: Stopwatch) -> None:
    convert = time_function(lambda: watch.stage, DECODE, weak=True)
    assert convert() == DECODE
    assert time_function(convert, AUGMENT)() == AUGMENT


def test_other_threads_are_not_timed(watch: Stopwatch) -> None:
    noted_stages: list[int] = []
    decode = time_function(lambda: noted_stages.append(watch.stage), DECODE)
    thread = threading.Thread(target=decode)
    thread.start()
    thread.join()
    assert noted_stages == [OTHER]
    assert watch.switches == 0


def test_the_stage_ends_with_an_exception_and_the_traceback_is_the_users(watch: Stopwatch) -> None:
    with pytest.raises(ValueError, match="negative") as caught:
        time_function(example, DECODE)(-1)
    assert [entry.name for entry in caught.traceback][1:] == ["example"]
    assert watch.stage == OTHER


def test_a_replaced_function_looks_like_the_original() -> None:
    replaced = time_function(example, DECODE)
    assert replaced(1, second="y") == (1, "y")
    assert inspect.signature(replaced) == inspect.signature(example)
    assert (replaced.__name__, replaced.__qualname__, replaced.__doc__, replaced.__module__) == (
        (example.__name__, example.__qualname__, example.__doc__, example.__module__)
    )
    assert inspect.getsource(replaced) == inspect.getsource(example)
    assert replaced.__globals__ is example.__globals__


def test_a_replaced_c_function_is_no_method_and_pickles_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replaced = time_function(os.getpid, READ)
    holder: Any = type("Holder", (), {"pid": replaced})
    assert holder().pid() == os.getpid()
    assert repr(replaced) == repr(os.getpid)
    monkeypatch.setattr(os, "getpid", replaced)
    monkeypatch.setattr(__import__("posix"), "getpid", replaced)
    assert pickle.loads(pickle.dumps(replaced)) is replaced  # noqa: S301 - our own bytes


def test_a_warning_names_the_callers_line(watch: Stopwatch) -> None:
    replaced = time_function(lambda: warnings.warn("look", stacklevel=2), DECODE)
    assert watch.stage == OTHER
    with pytest.warns(UserWarning, match="look") as caught:
        replaced()
    assert caught[0].filename == __file__


def test_a_compiler_takes_it_for_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    replaced = time_function(twice, AUGMENT)
    monkeypatch.setitem(
        globals(), "once", time_function(once, AUGMENT)
    )  # called inside, as libraries do
    compiled = torch.compile(replaced, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == 3


def test_torchscript_compiles_the_source_of_the_original(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "scripted.py"
    path.write_text(
        "import torch\n"
        "def once(value: torch.Tensor) -> torch.Tensor:\n    return value + 1\n"
        "def twice(value: torch.Tensor) -> torch.Tensor:\n    return once(once(value))\n"
    )
    module = types.ModuleType("scripted")
    exec(compile(path.read_text(), path, "exec"), module.__dict__)  # noqa: S102 - our own text
    module.once = time_function(module.once, AUGMENT)  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch withdraws it
        scripted = torch.jit.script(time_function(module.twice, AUGMENT))
    assert scripted(torch.ones(1)).item() == 3


def test_names_of_a_table_are_found_in_a_module_and_put_back() -> None:
    module: Any = types.ModuleType("library")
    exec(  # noqa: S102 - our own text
        "class First:\n    def forward(self): return 1\n"
        "class Second(First): pass\n"
        "class Third:\n    forward = staticmethod(len)\n"
        "def load(path): return path\n"
        "other = load\n",
        module.__dict__,
    )
    module.Foreign = io.BytesIO
    load, forward = module.load, module.First.forward
    stages.apply(module, [("*.forward", AUGMENT), ("load!", READ), ("other!", READ)])
    stages.apply(module, [("absent", READ), ("First.absent", READ), ("Absent.x", READ)])
    assert module.load is module.other is not load
    assert module.First.forward is not forward
    assert "forward" not in vars(module.Second)
    assert module.Third.forward is len
    stages.apply(module, [("load!", READ)])
    assert module.load.__wrapped__ is load
    patching.restore_all()
    assert (module.load, module.other, module.First.forward) == (load, load, forward)


def test_open_is_another_only_while_a_fetch_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    before = builtins.open, io.open, os.read, os.pread
    outer_watch, thread_watch = Stopwatch(), Stopwatch()
    reads.begin(outer_watch)
    assert builtins.open is io.open is not before[0]
    thread = threading.Thread(target=lambda: (reads.begin(thread_watch), reads.finish()))
    thread.start()
    thread.join()
    assert builtins.open is io.open is not before[0]
    fetch_open = builtins.open
    file = fetch_open(path, "rb")
    reads.finish()
    assert (builtins.open, io.open, os.read, os.pread) == before
    with file, fetch_open(path, "rb") as later:  # both outlive the fetch
        assert (file.read(3), later.read()) == (b"012", b"0123456789")
    assert outer_watch.switches == 2


@pytest.mark.parametrize("arguments", [("rb",), ("rb", 0), ("r",), ("br",), ("rb", 16)])
def test_a_file_opened_in_a_fetch_is_of_the_same_kind(
    watch: Stopwatch, tmp_path: Path, arguments: tuple[Any, ...]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(65, 91)) * 9000)
    opener: Any = builtins.open
    native: Any = reads.NATIVE
    with opener(path, *arguments) as fetch_file, native(path, *arguments) as plain_file:
        assert type(fetch_file) is type(plain_file)
        assert repr(fetch_file) == repr(plain_file)
        assert (fetch_file.name, fetch_file.mode) == (plain_file.name, plain_file.mode)
        assert fetch_file.read(70_000) == plain_file.read(70_000)
        assert fetch_file.tell() == plain_file.tell()
        assert fetch_file.read() == plain_file.read()
    assert watch.stage == OTHER
    assert watch.wall[READ] > 0


def test_someone_elses_open_is_kept() -> None:
    native, watch = builtins.open, Stopwatch()
    users_open: Any = object()
    reads.begin(watch)
    fetch_open = builtins.open
    builtins.open = users_open  # what a test's mock does
    reads.finish()
    assert builtins.open is users_open
    builtins.open = fetch_open  # put back by whoever replaced it, after the fetch
    reads.begin(watch)
    reads.finish()
    assert builtins.open is native


def test_a_child_of_a_fork_in_a_fetch_has_its_own_open_back(watch: Stopwatch) -> None:
    native = reads.NATIVE
    assert builtins.open is not native
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other threads of pytest's plugins
        child = os.fork()
    if not child:
        STATE.fork()
        os._exit(0 if builtins.open is io.open is native and not running else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert builtins.open is not native
    assert watch.stage == OTHER


def test_outside_a_fetch_a_replaced_function_costs_a_third_of_a_microsecond() -> None:
    def do_nothing() -> None:
        pass

    def measure_cost(function: Callable[[], object], times: int = 2_000) -> float:
        start = time.thread_time_ns()
        for _ in range(times):
            function()
        return (time.thread_time_ns() - start) / times

    replaced = time_function(do_nothing, DECODE)
    tries = (measure_cost(replaced) - measure_cost(do_nothing) for _ in range(500))
    assert any(extra_ns < 300 for extra_ns in tries), "a machine that others use is tried again"


# ── The purse ───────────────────────────────────────────────────────────────────────────────────


def record_fetches(wall: int, samples: int, light: int, detail: int) -> tuple[float, list[int]]:
    """Record many such fetches; give the share of their time that it cost, and the choices."""
    pace, spent_ns, n_by_kind = pacing.FetchPace(64), 0, [0, 0, 0]
    for _ in range(5_000):
        if pace.left:
            pace.left -= 1
            n_by_kind[0] += 1
            continue
        kind = pace.choose()
        n_by_kind[kind] += 1
        costs = (light, 0, 0) if kind == pacing.LIGHT else (0, detail, 0)
        spent_ns += sum(costs)
        pace.settle(wall, samples, costs)
    return spent_ns / (5_000 * wall), n_by_kind


def test_all_long_fetches_are_recorded_and_many_in_detail() -> None:
    share, (n_skipped, _, n_detailed) = record_fetches(100_000_000, 64, 100_000, 1_500_000)
    assert share <= 0.01
    assert n_skipped == 0
    assert n_detailed > 800


def test_looking_in_detail_costs_at_most_25_us_a_sample() -> None:
    share, (_, n_light, n_detailed) = record_fetches(260_000_000, 64, 100_000, 2_600_000)
    assert n_light + n_detailed == 5_000
    assert (n_light * 100_000 + n_detailed * 2_600_000) / 5_000 / 64 <= 25_000
    assert share <= 0.01


def test_short_fetches_are_recorded_seldom() -> None:
    share, (n_skipped, n_light, n_detailed) = record_fetches(100_000, 1, 15_000, 60_000)
    assert share <= 0.025  # at most 2 µs a fetch
    assert n_skipped > 4_000
    assert n_light > 400
    assert n_detailed > 10


def test_the_shortest_fetches_are_recorded_now_and_then() -> None:
    share, (n_skipped, n_light, n_detailed) = record_fetches(2_000, 1, 15_000, 60_000)
    assert share <= 0.05
    assert n_skipped > 4_900
    assert n_light > 5
    assert n_detailed >= 2


def test_a_cost_that_was_somebody_elses_does_not_stop_the_looking() -> None:
    pace = pacing.FetchPace(64)
    for cost in (10_000, 10_000_000):
        pace.choose()
        pace.settle(100_000_000, 64, (0, cost, 0))
    assert pace.left == 0
    assert pace.choose() == pacing.DETAILED


def test_random_generators_are_looked_at_first_and_then_every_so_often() -> None:
    pace, looked_at = pacing.FetchPace(64), []
    for count in range(200):
        pace.choose()
        due = pace.random()
        if due:
            looked_at.append(count)
        pace.settle(100_000_000, 64, (1, 0, 50_000 * due))
    assert looked_at == [0, 64, 128, 192]


# ── The kernel ──────────────────────────────────────────────────────────────────────────────────


def test_sleep_is_blocked_and_spinning_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    gauge = measure.gauge()
    before = gauge.start()
    time.sleep(0.05)
    spent_ns = spin(0.03)
    (tmp_path / "file").read_bytes()
    after = gauge.stop()
    cpu, queue, minor, major, read, disk = measure.subtract_readings(before, after)
    assert spent_ns <= cpu < spent_ns + 15e6
    assert after.at - before.at - cpu - max(0, queue) >= 45e6
    assert min(minor, major, disk) >= 0
    assert read in (5000, -1)


def test_each_thread_has_its_own_files() -> None:
    gauges: list[measure.Gauge] = [measure.gauge()]
    thread = threading.Thread(target=lambda: gauges.append(measure.gauge()))
    thread.start()
    thread.join()
    assert gauges[0] is measure.gauge()
    assert gauges[1] is not gauges[0]


def test_files_of_threads_that_ended_are_closed() -> None:
    measure.gauge()
    before = sum(1 for _ in FILES.iterdir())
    for _ in range(20):
        thread = threading.Thread(target=measure.gauge)
        thread.start()
        thread.join()
    assert sum(1 for _ in FILES.iterdir()) == before


def test_what_a_kernel_does_not_tell_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SCHEDSTAT", "/proc/thread-self/absent")
    monkeypatch.setattr(measure, "IO", "/proc/thread-self/absent-too")
    monkeypatch.setattr(measure, "_RUSAGE_SCOPE", None)
    gauge = measure.Gauge()
    usage = measure.subtract_readings(gauge.start(), gauge.stop())
    assert usage[0] >= 0
    assert usage[1:] == (-1,) * 5
    assert set(measure.gauges.unobserved) == {"run queue", "bytes", "faults"}
    measure.gauges.unobserved.clear()


def test_files_that_the_program_has_closed_are_absent_and_not_closed_again(tmp_path: Path) -> None:
    gauge = measure.Gauge()
    gauge_fd = gauge.queue
    os.close(gauge_fd)
    (tmp_path / "theirs").write_bytes(b"theirs")
    users_fd = os.open(tmp_path / "theirs", os.O_RDONLY)
    os.dup2(users_fd, gauge_fd)
    assert gauge.start().run_queue == -1
    assert "run queue" in measure.gauges.unobserved
    measure.gauges.unobserved.clear()
    del gauge
    assert os.read(gauge_fd, 6) == b"theirs"
    os.close(gauge_fd)
    os.close(users_fd)


def test_the_file_name_of_wrappers_is_one_that_warnings_pass_over() -> None:
    assert "importlib" in stopwatch.INVISIBLE
    assert "_bootstrap" in stopwatch.INVISIBLE


def test_what_is_passed_over_is_no_file_to_those_who_measure_files() -> None:
    assert stopwatch.INVISIBLE.startswith("<")
