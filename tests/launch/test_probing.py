"""The probe as a process: what it tells is kept, and whatever becomes of it is an answer."""

import os
import signal
import subprocess
import sys
import venv
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gapless.launch import probing
from gapless.launch.probing import Asked
from gapless.model.machine import Constants

QUICK = 0.05
UNITS = {"ns", "B/s", "FLOP/s", "1/s"}


def silent(_: str) -> None:
    pass


def storage(path: Path, **more: object) -> Asked:
    """Ask for what needs no torch."""
    asked = {"path": str(path), "parts": ("storage",), "scale": QUICK, "largest": 1 << 21}
    return Asked(**{**asked, **more})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Constants:
    """Measure what a machine without a GPU has, at tiny sizes; processes: below."""
    folder = tmp_path_factory.mktemp("data")
    files = tuple(str(folder / f"{at}.bin") for at in range(5))
    for name in files:
        Path(name).write_bytes(os.urandom(5000))
    parts = ("launches", "copies", "profiler", "cpu", "decode", "storage", "allreduce")
    asked = storage(folder, files=files, ranks=2, seconds=90, parts=parts)
    found = probing.measure(sys.executable, asked, silent)
    assert sorted(map(str, folder.iterdir())) == sorted(files)  # nothing is left behind
    return found


def test_every_constant_has_a_unit_a_method_and_a_value_or_a_reason(everything: Constants) -> None:
    assert everything.why is None
    assert everything.whole
    for one in everything.values:
        assert one.unit in UNITS
        assert everything.methods[one.name]
        assert (one.value is None) == (one.why is not None), one
        if one.value is not None:
            assert one.value > 0
            assert one.times > 0
            assert one.spent_s > 0
        if one.low is not None and one.value is not None and one.high is not None:
            assert one.low <= one.value <= one.high


def test_a_machine_without_a_gpu_has_these_constants(everything: Constants) -> None:
    present = {one.name for one in everything.values if one.value is not None}
    wanted = {"profiler.first", "cpu.gemm.fp32", "cpu.memory.triad", "allreduce"}
    assert wanted | {"storage.ordered.warm", "storage.random.warm", "storage.file.warm"} <= present
    assert {one.why for one in everything.values if one.name.startswith("copy.")} == {
        "no GPU was asked for"
    }


@pytest.mark.slow
def test_processes_and_workers_are_started_and_ended(tmp_path: Path) -> None:
    asked = storage(tmp_path, parts=("processes",), seconds=90)
    found = probing.measure(sys.executable, asked, silent)
    assert all(one.value for one in found.values)
    assert {one.name for one in found.values} == {
        "process.python",
        "process.fork",
        "process.fork_worker",
        "process.end_worker",
        "process.spawn_worker",
        "process.import_torch",
    }


def test_constants_by_size_are_in_order(everything: Constants) -> None:
    sizes = [at for at, _ in everything.series("allreduce")]
    assert sizes == [4096, 65536, 1 << 20]
    assert everything.value("allreduce", 4096) == everything.series("allreduce")[0][1]
    assert everything.value("allreduce", 5) is None
    assert everything.value("storage.file.warm") is not None


def test_the_place_says_what_constants_depend_on(everything: Constants) -> None:
    place = everything.place
    assert place is not None
    assert (place.executable, place.gpu) == (sys.executable, None)
    assert place.torch is not None
    assert place.processors >= 1
    assert place.storage
    quickly = probing.place(sys.executable, Asked(path=str(Path(__file__).parent)))
    assert quickly is not None
    assert (quickly.torch, quickly.processor) == (place.torch, place.processor)


def test_a_gpu_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    asked = storage(tmp_path, device=63, parts=("launches", "storage"))
    found = probing.measure(sys.executable, asked, silent)
    assert found.place is not None
    assert found.place.gpu is not None
    assert found.place.gpu.why
    assert {one.why for one in found.values if one.name == "launch.call"} == {found.place.gpu.why}
    assert found.value("storage.ordered.warm")


def test_what_no_time_is_left_for_is_told(tmp_path: Path) -> None:
    found = probing.measure(sys.executable, storage(tmp_path, seconds=0.0), silent)
    assert {one.why for one in found.values} == {"no time was left", "no files were given"}
    assert found.why is None
    assert not found.whole


def test_only_the_parts_that_are_asked_for_are_measured(tmp_path: Path) -> None:
    told: list[str] = []
    found = probing.measure(sys.executable, storage(tmp_path), told.append)
    assert found.parts == ("storage",)
    assert {one.name.partition(".")[0] for one in found.values} == {"storage"}
    assert told == ["measuring this machine: storage"]


def test_a_python_without_torch_still_measures_the_rest(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    asked = storage(tmp_path, parts=("storage", "cpu"), environment={"PATH": os.environ["PATH"]})
    found = probing.measure(str(tmp_path / "bare/bin/python"), asked, silent)
    assert found.why is None
    assert found.place is not None
    assert found.place.torch is None
    assert found.value("storage.ordered.warm")
    (why,) = {one.why for one in found.values if one.name.startswith("cpu.")}
    assert why == "ModuleNotFoundError: No module named 'torch'"


def test_a_python_that_does_not_exist_is_a_reason(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    found = probing.measure(missing, Asked(), silent)
    assert found.why is not None
    assert found.why.startswith(f"{missing} cannot be started")
    assert (found.values, found.place, found.whole) == ((), None, False)
    assert probing.place(missing, Asked()) is None


def test_what_is_no_python_is_a_reason(tmp_path: Path) -> None:
    found = probing.measure(
        interpreter(tmp_path, "echo who; echo oh no >&2; exit 3"), Asked(), silent
    )
    assert found.why == "the probe ended with 3: oh no"


def interpreter(folder: Path, text: str) -> str:
    path = folder / "interpreter"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_lines_of_others_are_passed_over(tmp_path: Path) -> None:
    noise = "echo '{\"gapless_probe\": 1, \"figures\": [7]}'; echo '[1]'; echo hello"
    python = interpreter(tmp_path, f'{noise}; exec {sys.executable} "$@"')
    found = probing.measure(python, storage(tmp_path), silent)
    assert found.why is None
    assert found.value("storage.ordered.warm")
    assert "a line of the probe was not understood" in found.notes


# The probe, whose disk never comes to an end: it is at it when it is killed.
ENDLESS = """
import os, runpy, sys, time
os.fsync = lambda _: time.sleep(1000)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_probe_that_is_killed_keeps_what_it_had_measured(tmp_path: Path) -> None:
    def kill(what: str) -> None:
        if what.endswith("storage"):
            (probe,) = psutil.Process().children()
            os.kill(probe.pid, signal.SIGKILL)

    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "endless.py").write_text(ENDLESS)
    python = interpreter(tmp_path, f'exec {sys.executable} {tmp_path}/endless.py "$@"')
    asked = Asked(path=str(data), parts=("cpu", "storage"), scale=0.05, seconds=60)
    found = probing.measure(python, asked, kill)
    assert found.why == "the probe was ended by signal 9, while it measured: storage"
    assert found.parts == ("cpu",)
    assert found.value("cpu.memory.triad", 1)
    assert list(data.iterdir()) == []


def test_a_probe_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_MORE_S", 0.2)
    python = interpreter(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    found = probing.measure(python, Asked(seconds=0.2), silent)
    assert found.why == "the probe did not end within 1 s"
    child = int((tmp_path / "child").read_text())
    with suppress(psutil.NoSuchProcess):
        psutil.Process(child).wait(20)  # raises if it lives on


def test_stdout_holds_lines_of_the_probe_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(probing.PROBE), *storage(tmp_path).options()]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=240)
    assert done.stderr == ""
    assert all('"gapless_probe": 1' in line for line in done.stdout.splitlines())


def test_constants_that_others_disturbed_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_BUSY", -1.0)  # anybody is too many
    found = probing.measure(sys.executable, storage(tmp_path), silent)
    assert not found.alone
    assert any("kept up to" in note for note in found.notes)
