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
from gapless.launch.probing import ProbeRequest
from gapless.model.machine import Constants

QUICK = 0.05
UNITS = {"ns", "B/s", "FLOP/s", "1/s"}


def ignore_progress(_: str) -> None:
    pass


def data_request(folder: Path, **overrides: object) -> ProbeRequest:
    """Ask for what needs no torch: how fast files of the folder are read."""
    folder.mkdir(exist_ok=True)
    files = tuple(str(folder / f"{number}.bin") for number in range(5))
    for name in files:
        Path(name).write_bytes(os.urandom(5000))
    settings = {"path": str(folder), "files": files, "parts": ("data",), "scale": QUICK}
    return ProbeRequest(**{**settings, **overrides})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> Constants:
    """Measure what a machine without a GPU has, at tiny sizes; processes: below."""
    folder = tmp_path_factory.mktemp("data")
    parts = ("launches", "copies", "cpu", "data")
    request = data_request(folder, seconds=90, parts=parts, largest=1 << 21)
    constants = probing.measure(sys.executable, request, ignore_progress)
    assert sorted(map(str, folder.iterdir())) == sorted(request.files)  # nothing is left behind
    return constants


def test_every_constant_has_a_unit_a_method_and_a_value_or_a_reason(constants: Constants) -> None:
    assert constants.why is None
    assert constants.whole
    for constant in constants.values:
        assert constant.unit in UNITS
        assert constants.methods[constant.name]
        assert (constant.value is None) == (constant.why is not None), constant
        if constant.value is not None:
            assert constant.value > 0
            assert constant.times > 0
            assert constant.spent_s > 0
        if constant.low is not None and constant.value is not None and constant.high is not None:
            assert constant.low <= constant.value <= constant.high


def test_a_machine_without_a_gpu_has_these_constants(constants: Constants) -> None:
    measured_names = {constant.name for constant in constants.values if constant.value is not None}
    expected_names = {"cpu.gemm.fp32", "cpu.memory.triad", "data.rate.warm", "data.file.warm"}
    assert expected_names <= measured_names
    assert {constant.why for constant in constants.values if constant.name.startswith("copy.")} == {
        "no GPU was asked for"
    }


@pytest.mark.slow
def test_workers_are_started_and_ended(tmp_path: Path) -> None:
    request = data_request(tmp_path, parts=("processes",), seconds=90)
    constants = probing.measure(sys.executable, request, ignore_progress)
    assert all(constant.value for constant in constants.values)
    assert {constant.name for constant in constants.values} == {
        "process.fork",
        "process.end_worker",
    }


def test_constants_by_threads_are_in_order(constants: Constants) -> None:
    series = constants.series("cpu.gemm.fp32")
    assert [threads for threads, _ in series] == sorted({threads for threads, _ in series})
    assert constants.value("cpu.gemm.fp32", series[0][0]) == series[0][1]
    assert constants.value("cpu.gemm.fp32", -5) is None


def test_the_place_says_what_constants_depend_on(constants: Constants) -> None:
    platform = constants.place
    assert platform is not None
    assert (platform.executable, platform.gpu) == (sys.executable, None)
    assert platform.torch is not None
    assert platform.processors >= 1
    assert platform.storage
    quick_platform = probing.identify_platform(
        sys.executable, ProbeRequest(path=str(Path(__file__).parent))
    )
    assert quick_platform is not None
    assert (quick_platform.torch, quick_platform.processor) == (platform.torch, platform.processor)


def test_a_gpu_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    request = data_request(tmp_path, device=63, parts=("launches", "data"))
    constants = probing.measure(sys.executable, request, ignore_progress)
    assert constants.place is not None
    assert constants.place.gpu is not None
    assert constants.place.gpu.why
    assert {constant.why for constant in constants.values if constant.name == "launch.call"} == {
        constants.place.gpu.why
    }
    assert constants.value("data.rate.warm", 1)


def test_what_no_time_is_left_for_is_told(tmp_path: Path) -> None:
    constants = probing.measure(
        sys.executable, data_request(tmp_path, seconds=0.0), ignore_progress
    )
    assert {constant.why for constant in constants.values} == {"no time was left"}
    assert constants.why is None
    assert not constants.whole


def test_without_files_there_is_no_reading(tmp_path: Path) -> None:
    request = data_request(tmp_path, files=())
    constants = probing.measure(sys.executable, request, ignore_progress)
    assert {constant.why for constant in constants.values} == {"no files were given"}


def test_only_the_parts_that_are_asked_for_are_measured(tmp_path: Path) -> None:
    messages: list[str] = []
    constants = probing.measure(sys.executable, data_request(tmp_path), messages.append)
    assert constants.parts == ("data",)
    assert {constant.name.partition(".")[0] for constant in constants.values} == {"data"}
    assert messages == ["measuring this machine: data"]


def test_a_python_without_torch_still_measures_the_rest(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    request = data_request(
        tmp_path, parts=("data", "cpu"), environment={"PATH": os.environ["PATH"]}
    )
    constants = probing.measure(str(tmp_path / "bare/bin/python"), request, ignore_progress)
    assert constants.why is None
    assert constants.place is not None
    assert constants.place.torch is None
    assert constants.value("data.rate.warm", 1)
    (why,) = {constant.why for constant in constants.values if constant.name.startswith("cpu.")}
    assert why == "ModuleNotFoundError: No module named 'torch'"


def test_a_python_that_does_not_exist_is_a_reason(tmp_path: Path) -> None:
    absent_python = str(tmp_path / "python")
    constants = probing.measure(absent_python, ProbeRequest(), ignore_progress)
    assert constants.why is not None
    assert constants.why.startswith(f"{absent_python} cannot be started")
    assert (constants.values, constants.place, constants.whole) == ((), None, False)
    assert probing.identify_platform(absent_python, ProbeRequest()) is None


def test_what_is_no_python_is_a_reason(tmp_path: Path) -> None:
    constants = probing.measure(
        interpreter(tmp_path, "echo who; echo oh no >&2; exit 3"), ProbeRequest(), ignore_progress
    )
    assert constants.why == "the probe ended with 3: oh no"


def interpreter(folder: Path, text: str) -> str:
    path = folder / "interpreter"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_lines_of_others_are_passed_over(tmp_path: Path) -> None:
    noise = "echo '{\"gapless_probe\": 1, \"figures\": [7]}'; echo '[1]'; echo hello"
    python = interpreter(tmp_path, f'{noise}; exec {sys.executable} "$@"')
    constants = probing.measure(python, data_request(tmp_path), ignore_progress)
    assert constants.why is None
    assert constants.value("data.rate.warm", 1)
    assert "a line of the probe was not understood" in constants.notes


# The probe, whose disk never comes to an end: it is at it when it is killed.
ENDLESS = """
import os, runpy, sys, time
os.pread = lambda *_: time.sleep(1000)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_probe_that_is_killed_keeps_what_it_had_measured(tmp_path: Path) -> None:
    def kill(activity: str) -> None:
        if activity.endswith("data"):
            (probe,) = psutil.Process().children()
            os.kill(probe.pid, signal.SIGKILL)

    (tmp_path / "endless.py").write_text(ENDLESS)
    python = interpreter(tmp_path, f'exec {sys.executable} {tmp_path}/endless.py "$@"')
    request = data_request(tmp_path / "data", parts=("cpu", "data"), seconds=60)
    constants = probing.measure(python, request, kill)
    assert constants.why == "the probe was ended by signal 9, while it measured: data"
    assert constants.parts == ("cpu",)
    assert constants.value("cpu.memory.triad", 1)


def test_a_probe_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_MORE_S", 0.2)
    python = interpreter(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    constants = probing.measure(python, ProbeRequest(seconds=0.2), ignore_progress)
    assert constants.why == "the probe did not end within 1 s"
    child = int((tmp_path / "child").read_text())
    with suppress(psutil.NoSuchProcess):
        psutil.Process(child).wait(20)  # raises if it lives on


def test_stdout_holds_lines_of_the_probe_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(probing.PROBE), *data_request(tmp_path).options()]
    process = subprocess.run(command, capture_output=True, check=True, text=True, timeout=240)
    assert process.stderr == ""
    assert all('"gapless_probe": 1' in line for line in process.stdout.splitlines())


def test_constants_that_others_disturbed_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_BUSY", -1.0)  # anybody is too many
    constants = probing.measure(sys.executable, data_request(tmp_path), ignore_progress)
    assert not constants.alone
    assert any("kept up to" in note for note in constants.notes)
