"""The checkup as a whole: nothing stops it, nothing is left behind, what is printed of it."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from gapless import cli
from gapless.doctor import checks, pages
from gapless.doctor.checkup import MAX_FILES, choose_files
from gapless.doctor.interpreter import InterpreterQuery, choose_interpreter
from gapless.doctor.subject import read_folder
from gapless.launch import probing
from gapless.launch.probing import ProbeRequest
from gapless.model.checkup import CheckResult, Checkup, CheckVerdict
from gapless.report.checkup import checkup_lines
from gapless.report.documents.checkup import checkup_json
from gapless.report.text.console import pen_for
from tests.doctor.drawing import draw

CHECKUP = Checkup(
    "/env/bin/python (the first python on PATH) · 4 processors · no GPU",
    (
        CheckResult(
            "shared-memory",
            CheckVerdict.BAD,
            "it has 64.0 MiB, of which 64.0 MiB is free: workers with larger batches die",
            "docker run --ipc=host (or --shm-size=16g)",
        ),
        CheckResult("numa", CheckVerdict.UNKNOWN, "no GPU", None),
        CheckResult("gpu", CheckVerdict.UNKNOWN, "no GPU", None),
        CheckResult("swap", CheckVerdict.OK, "there is none", None),
    ),
    1.25,
    "/env/bin/python",
)


def screen(width: int, *, is_full: bool) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(checkup_lines(CHECKUP, pen, is_full=is_full))
    return stream.getvalue()


def test_the_worst_comes_first_and_what_is_well_is_folded() -> None:
    assert screen(80, is_full=False) == snapshot("""\
gapless doctor · 1 bad · 2 unknown · 1 ok · 1.2 s
/env/bin/python (the first python on PATH) · 4 processors · no GPU
bad      shared-memory: it has 64.0 MiB, of which 64.0 MiB is free: workers with
         larger batches die
         → docker run --ipc=host (or --shm-size=16g)
unknown  numa, gpu: no GPU
ok       swap (--full: why)
""")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_lines_stay_within_the_width(width: int) -> None:
    for line in screen(width, is_full=True).splitlines():
        assert cell_len(line) <= width
    assert "there is none" in screen(width, is_full=True)


def test_the_json_has_the_keys_that_scripts_rely_on() -> None:
    document = json.loads(checkup_json(CHECKUP))
    assert document["schema"] == 1
    assert document["checks"][0] == {
        "name": "shared-memory",
        "verdict": "bad",
        "evidence": CHECKUP.results[0].evidence,
        "remedy": CHECKUP.results[0].remedy,
    }


def test_a_check_that_fails_is_unknown_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Any:  # noqa: ANN401
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(checks, "HOST", {**checks.HOST, "numa": fail})
    results = checks.run_checks(draw(tmp_path), is_measured=True)
    (failed,) = [result for result in results if result.name == "numa"]
    assert failed.verdict == "unknown"
    assert failed.evidence == "the check failed: ZeroDivisionError: division by zero"
    assert len(results) == sum(len(group) for group in checks.GROUPS.values()) - 1  # no --data


def test_a_machine_that_shows_nothing_is_unknown_not_an_error(tmp_path: Path) -> None:
    """Neither /proc nor /sys can be read, there is no GPU, no interpreter, no limit."""
    subject = draw(tmp_path / "none", allowed_cpus=None, n_cpus=None, has_data=True)
    results = checks.run_checks(subject, is_measured=True)
    assert not [result for result in results if "the check failed" in result.evidence]
    assert not [result for result in results if result.verdict == "bad"]


def test_every_check_has_a_page() -> None:
    for group in checks.GROUPS.values():
        for name in group:
            page = pages.find_page(name)
            assert page is not None
            assert page.startswith(f"# {name}\n\nA check of gapless doctor.\n\n")
    assert pages.find_page("nothing") is None


def test_the_interpreter_is_the_named_the_recorded_or_the_first_on_path(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    path = str(tmp_path)
    assert choose_interpreter(sys.executable, "/x", path).python == sys.executable
    assert choose_interpreter(None, sys.executable, path).origin == "of the last run here"
    on_path = choose_interpreter(None, "/gone/python", path)
    assert (on_path.python, on_path.origin) == (str(python), "the first python3 on PATH")
    assert on_path.is_guess
    assert choose_interpreter(None, None, str(tmp_path / "none")).python is None


def ask(python: Path, seconds: float = 60.0) -> Any:  # noqa: ANN401
    with InterpreterQuery(choose_interpreter(str(python), None, None), dict(os.environ)) as query:
        return query.wait(seconds)


def test_an_interpreter_says_what_is_installed() -> None:
    report = ask(Path(sys.executable))
    assert report.why is None
    assert report.facts.complete
    assert report.facts.torch is not None
    assert report.facts.threads > 0
    assert report.facts.pillow.turbo is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/sh\necho oh dear >&2\nexit 3\n", "ended with 3: oh dear"),
        ("#!/bin/sh\necho '{\"packages\": 7}'\nkill -9 $$\n", "ended with -9"),
        ("#!/nowhere/sh\n", "cannot be started"),
    ],
)
def test_an_interpreter_that_fails_is_an_answer(text: str, words: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(text)
    python.chmod(0o755)
    report = ask(python)
    assert report.facts is None
    assert words in report.why


def test_an_interpreter_that_hangs_is_ended_and_its_first_words_are_kept(tmp_path: Path) -> None:
    python = tmp_path / "python"
    line = json.dumps({"packages": {"executable": "/p", "python": "3.12", "torch": "2.8"}})
    python.write_text(f"#!/bin/sh\necho '{line}'\nsleep 600\n")
    python.chmod(0o755)
    began = time.monotonic()
    report = ask(python, 0.5)
    assert time.monotonic() - began < 30
    assert report.facts.torch == "2.8"
    assert "did not import torch" in report.why


def test_files_of_a_data_set_are_chosen_without_listing_all(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 40):
        path = tmp_path / str(number % 7) / f"{number}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    files = choose_files(tmp_path)
    assert len(set(files)) == MAX_FILES
    assert all(file.endswith(".bin") for file in files)
    assert choose_files(tmp_path / "0" / "0.bin") == (str(tmp_path / "0" / "0.bin"),)
    assert choose_files(tmp_path / "pipe") == ()


def test_data_is_read_cold_and_warm_and_nothing_is_left_behind(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.bin" for number in range(5)]
    for file in files:
        file.write_bytes(os.urandom(300_000))
        os.sync()
    request = ProbeRequest(parts=("data",), files=tuple(map(str, files)), seconds=3.0, scale=0.1)
    constants = probing.measure(sys.executable, request, lambda _: None)
    assert constants.why is None
    assert [readers for readers, _ in constants.series("data.rate.warm")] == [1]
    assert all(value > 0 for _, value in constants.series("data.file.warm"))
    cold = constants.series("data.rate.cold")  # absent, with the reason, on a file system in memory
    whys = [each.why for each in constants.values if each.name == "data.rate.cold"]
    assert [readers for readers, _ in cold] == [1, 8] or whys == ["the kernel keeps it in memory"]
    assert sorted(tmp_path.iterdir()) == files


def test_a_file_that_is_gone_is_the_reason(tmp_path: Path) -> None:
    request = ProbeRequest(parts=("data",), files=(str(tmp_path / "gone"),), seconds=2.0)
    constants = probing.measure(sys.executable, request, lambda _: None)
    assert {each.why for each in constants.values} == {
        f"{tmp_path}/gone: No such file or directory"
    }


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gapless", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_the_command_prints_one_object_and_ends_with_1_if_a_check_is_bad(tmp_path: Path) -> None:
    process = doctor("--fast", "--json", "--python", sys.executable, PYTHONMALLOC="debug")
    document = json.loads(process.stdout)
    verdicts = {entry["name"]: entry["verdict"] for entry in document["checks"]}
    assert verdicts["debug-switches"] == "bad"
    assert process.returncode == 1
    assert "products" not in verdicts
    assert process.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_only_named_checks_are_run_and_none_of_them_starts_an_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    assert cli.main(["doctor", "--json", "--only", "shared-memory, gpu"]) in {0, 1}
    document = json.loads(capsys.readouterr().out)
    assert {check["name"] for check in document["checks"]} == {"shared-memory", "gpu"}
    assert document["python"] is None
    assert document["notes"] == []


def test_a_python_without_torch_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    process = doctor("--fast", "--json", PATH=f"{tmp_path}:{os.environ['PATH']}")
    (torch,) = [each for each in json.loads(process.stdout)["checks"] if each["name"] == "torch"]
    assert torch["verdict"] == "warn"
    assert "torch is not installed in" in torch["evidence"]


def test_what_cannot_be_followed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--fast", "--data", "."]) == 2
    assert cli.main(["doctor", "--data", "/nowhere/at/all"]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err
    assert cli.main(["doctor", "--only", "gpu,products", "--fast"]) == 2
    assert "--only products: no such check here" in capsys.readouterr().err


def test_an_interrupt_ends_what_was_started(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/number\nexec sleep 600\n")
    python.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "gapless", "doctor", "--python", str(python)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    number = tmp_path / "number"
    until = time.monotonic() + 60
    while not (number.exists() and number.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)  # the query is awaited
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (130, b"", b"")
    assert not Path(f"/proc/{number.read_text().strip()}").exists()


def test_a_folder_that_may_not_be_listed_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert read_folder(tmp_path).why == f"{tmp_path}: Permission denied"
    assert read_folder(tmp_path / "gone").why == f"{tmp_path / 'gone'}: No such file or directory"
