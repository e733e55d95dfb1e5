"""What is said of processes that loaded PyTorch and never ended a step."""

import json
import sys
from pathlib import Path

import pytest

from gapless.launch.run import unstepped
from gapless.launch.run.pacing import USUAL_S, Patience
from tests.launch import starting

S = 1_000_000_000


def write_report(spool: Path, pid: int, **changes: object) -> None:
    report = {
        "pid": pid,
        "argv": ["/code/simulate.py", "--big"],
        "loaded": 5 * S,
        "at": 45 * S,
        "last": False,
        "cpu_ns": 40 * S,
        "things": {"optimizer": 0, "loader": 0, "model": 0},
        "calls": 0,
        "looks": 100,
        "stacks": [
            [60, [["/code/field.py", 8, "relax"], ["/code/simulate.py", 20, "main"]]],
            [38, [["/code/simulate.py", 22, "main"]]],
            [2, [["/code/simulate.py", 3, "read"]]],
        ],
        **changes,
    }
    (spool / f"unstepped-{pid}.json").write_text(json.dumps(report))


def test_lines_and_the_loop_are_named(tmp_path: Path) -> None:
    write_report(tmp_path, 7)
    (name, sentence), advice = unstepped.describe_reports(unstepped.read_reports(tmp_path))
    assert name == "process 7 (simulate.py)"
    life, stood_at = sentence.split("; ")
    assert life == "with PyTorch for 40 s, 1.0 processors busy"
    lines = "field.py:8 relax 60 % · simulate.py:22 main 38 % (100 samples)"
    assert stood_at == f"its main thread stood at {lines}"
    assert advice[0] == "to see its steps"
    assert advice[1].startswith(
        "call gapless.step() where a round ends, in or around main (simulate.py:20–22); "
    )
    assert "gapless check --seconds" in advice[1]


def test_what_was_made_is_counted_and_the_busiest_come_first(tmp_path: Path) -> None:
    object_counts = {"optimizer": 2, "loader": 1, "model": 3}
    write_report(tmp_path, 7, cpu_ns=1, stacks=[], looks=0)
    write_report(tmp_path, 8, things=object_counts, calls=2, stacks=[], looks=0)
    for pid in (9, 10):
        write_report(tmp_path, pid, cpu_ns=0)
    (tmp_path / "unstepped-11.json").write_text('{"pid": 11, "argv"')
    sentences = list(unstepped.describe_reports(unstepped.read_reports(tmp_path)))
    counts = "2 optimizers made, 1 DataLoader used, 2 calls of modules"
    life = f"with PyTorch for 40 s, 1.0 processors busy, {counts}"
    assert sentences[0] == ("process 8 (simulate.py)", life)
    assert sentences[1] == ("process 7 (simulate.py)", "with PyTorch for 40 s, idle")
    assert sentences[3:] == [("more processes", "1 that loaded PyTorch")]


def test_nothing_is_said_where_no_process_had_torch(tmp_path: Path) -> None:
    assert unstepped.newest_load_s(tmp_path) is None
    assert list(unstepped.describe_reports(())) == []


@pytest.mark.parametrize(
    ("seconds", "loaded_s", "wait_s"),
    [
        (None, None, USUAL_S + 20),
        (None, 104.0, USUAL_S + 4),
        (None, 90.0, USUAL_S),
        (None, 1000.0, 5 * USUAL_S),  # one after the other
        (7.0, None, 35),
        (7.0, 102.0, 9),
    ],
)
def test_a_check_waits_a_minute_after_torch_was_loaded(
    seconds: float | None, loaded_s: float | None, wait_s: float
) -> None:
    messages = list[str]()
    patience = Patience(seconds, messages.append)
    assert patience.before_any(100.0, loaded_s, is_silent=False) == wait_s
    assert messages == []  # whoever has just ended waits for nothing
    waits_s = [patience.before_any(100.0, loaded_s, is_silent=True) for _ in range(2)]
    assert waits_s == [wait_s, wait_s]
    assert len(messages) == (loaded_s is not None)


def test_a_process_that_ended_gives_the_next_its_time(tmp_path: Path) -> None:
    write_report(tmp_path, 7)
    assert unstepped.newest_load_s(tmp_path) == 5
    assert unstepped.is_any_silent(tmp_path)
    write_report(tmp_path, 7, last=True)
    assert unstepped.newest_load_s(tmp_path) == 45
    assert not unstepped.is_any_silent(tmp_path)


# Says of itself what a process with torch says in which nothing steps, and goes on.
SIMULATES = """
import json, os, time
now = time.monotonic_ns()
text = {'pid': os.getpid(), 'argv': ['sim.py'], 'loaded': now - 40 * 10**9, 'at': now,
        'last': False, 'cpu_ns': 4 * 10**10, 'calls': 0, 'looks': 50,
        'things': {'optimizer': 0, 'loader': 0, 'model': 0},
        'stacks': [[50, [['/code/sim.py', 8, 'relax']]]]}
with open(os.path.join(os.environ['GAPLESS_SPOOL'], 'unstepped-1.json'), 'w') as file:
    json.dump(text, file)
time.sleep(300)
"""


def test_a_check_ends_where_nothing_steps_and_says_what_it_saw(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIMULATES)
    command = [*starting.GAPLESS, "check", "--seconds", "2", sys.executable, "sim.py"]
    process = starting.run_plainly(command, tmp_path)
    assert process.returncode == 2
    output = process.stderr.decode()
    assert "nothing has ended a step yet; the check ends 2 s after PyTorch was loaded" in output
    assert "nothing was recorded: PyTorch was loaded, but no step ended" in output
    assert (
        "(sim.py): with PyTorch for 40 s, 1.0 processors busy; its main thread stood at" in output
    )
    assert "in or around relax (sim.py:8)" in output
    assert starting.read_unobserved(starting.run_folder(tmp_path))["to see its steps"]
