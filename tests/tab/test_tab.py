"""The tab's list and pages, as a server would ask for them."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from gapless.store.run.unpack import unpack
from gapless.tab import entries, serving
from gapless.tab.entries import find_entries
from gapless.tab.serving import make_apps
from tests.traces import RECORDED_RUN

DATA: Final = Path(__file__).parents[1] / "data"
TRACE: Final = "box_7.1763800000000.pt.trace.json.gz"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder of logs: a run, a trace, traces of two ranks, two spans of one worker."""
    runs = tmp_path / "exp" / "runs"
    unpack(RECORDED_RUN, runs).rename(runs / "a-run")
    for name in (f"exp/{TRACE}", f"spans/{TRACE}", "spans/box_7.1763800000999.pt.trace.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(DATA / "loader_workers.json.gz", tmp_path / name)
    for rank in (0, 1):
        (tmp_path / "job").mkdir(exist_ok=True)
        shutil.copy(
            DATA / f"two_ranks.rank{rank}.json.gz", tmp_path / f"job/rank{rank}.pt.trace.json.gz"
        )
    (tmp_path / "exp" / "events.out.tfevents.1").touch()
    (tmp_path / "exp" / "notes.json").write_text("{}")
    return tmp_path


class Answer:
    """What an application answers."""

    def __init__(self, logs: Path, route: str, **query: str) -> None:
        self.status, self.headers = "", dict[str, str]()
        environment: dict[str, Any] = {"QUERY_STRING": urlencode(query)}
        self.body = b"".join(make_apps(logs)[route](environment, self._start))

    def _start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status, self.headers = status, dict(headers)


def test_runs_and_traces_are_found_and_what_a_run_holds_is_part_of_it(logs: Path) -> None:
    found = {entry.name: entry.kind for entry in find_entries(logs)}
    assert found == {
        "exp/runs/a-run": "run",
        f"exp/{TRACE}": "trace",
        f"spans/{TRACE}": "trace",
        "spans/box_7.1763800000999.pt.trace.json": "trace",
        "job": "traces of one job",
        "job/rank0.pt.trace.json.gz": "trace",
        "job/rank1.pt.trace.json.gz": "trace",
    }
    assert json.loads(Answer(logs, "/entries").body) == [
        {"name": entry.name, "kind": entry.kind} for entry in find_entries(logs)
    ]


def test_a_run_that_is_the_folder_itself_has_its_name_and_deep_folders_are_left(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = find_entries(logs / "exp/runs/a-run")
    assert (entry.name, entry.kind) == ("a-run", "run")
    monkeypatch.setattr(entries, "_MAX_DEPTH", 1)
    assert "exp/runs/a-run" not in {entry.name for entry in find_entries(logs)}
    assert find_entries(logs / "nothing") == ()


@pytest.mark.parametrize("name", ["exp/runs/a-run", f"exp/{TRACE}", "job"])
def test_an_entry_has_its_page_and_a_policy_for_its_own_scripts_alone(
    logs: Path, name: str
) -> None:
    answer = Answer(logs, "/page", name=name)
    assert answer.status == "200 OK"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b'id="account"' in answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("style-src")[0]
    scripts = re.findall(r"<script>(.*?)</script>", answer.body.decode(), re.DOTALL)
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert digests
    assert all(f"'sha256-{digest}'" in policy for digest in digests)


def test_a_page_is_kept_until_the_file_changes(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def make_page(path: Path, changed_ns: int) -> str:
        made.append(path)
        return f"<p>{changed_ns}</p>"

    monkeypatch.setattr(serving, "_make_page", serving.lru_cache(4)(make_page))
    for _ in range(2):
        Answer(logs, "/page", name=f"exp/{TRACE}")
    assert made == [logs / "exp" / TRACE]
    (logs / "exp" / TRACE).touch()
    Answer(logs, "/page", name=f"exp/{TRACE}")
    assert len(made) == 2


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "exp", "<b>gone</b>", ""])
def test_only_what_is_listed_is_served(logs: Path, name: str) -> None:
    answer = Answer(logs, "/page", name=name)
    assert answer.status == "404 Not Found"
    assert b"there is no run or trace" in answer.body
    assert b"<b>" not in answer.body


def test_a_broken_trace_is_a_sentence(logs: Path) -> None:
    (logs / "exp" / TRACE).write_bytes(b"no trace <b>")
    answer = Answer(logs, "/page", name=f"exp/{TRACE}")
    assert answer.status == "200 OK"
    assert answer.body.startswith(b"<!doctype html>")
    assert TRACE.encode() in answer.body
    assert "script-src 'none'" in answer.headers["Content-Security-Policy"]
