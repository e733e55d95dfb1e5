"""``sources.json``: which of the user's own files a run has run, and what was in them."""

import os
from pathlib import Path

import pytest

from gapless import wire
from gapless.store.run.recordings import load
from gapless.store.run.sources import FILE, find_sources, read_sources, sha256, write_sources
from tests.store import drawing

SCRIPT = """\
import os, data as d  # as it is
if d:
    from lib.nets import Net; import unused_text
from lib import (
    x,  # (y
    tools as t,
)
"""
STARTED_NS = 1_800_000_000_000_000_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose files are older than its run."""
    texts = {
        "train.py": SCRIPT,
        "data.py": "broken(\n",
        "lib/__init__.py": "",
        "lib/nets.py": "from . import parts\nfrom ..other import x\n",
        "lib/parts.py": "",
        "lib/tools.py": "",
        "unused.py": "",
        "seen.py": "",
        "lib/python3.11/site-packages/installed.py": "",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(STARTED_NS - 10**9, STARTED_NS - 10**9))
    return tmp_path


def write_run(project: Path) -> Path:
    installed = project / "lib/python3.11/site-packages/installed.py"
    facts = [
        wire.text_frame(
            wire.FACT,
            {"noun": "loader", "id": number, "file": str(path), "line": 1, "values": {}},
        )
        for number, path in enumerate((project / "seen.py", installed, project / "gone.py"))
    ]
    log = b"".join([drawing.process(argv=["train.py"]), *facts])
    return drawing.write_run(
        project / "runs" / "a", {"rank0.log": log}, folder=str(project), started_unix_ns=STARTED_NS
    )


def test_what_a_run_ran_is_listed_with_its_sum(project: Path) -> None:
    run = write_run(project)
    write_sources(load(run))
    names = {path.relative_to(project).as_posix() for path in read_sources(run)}
    assert names == {
        "train.py", "data.py", "seen.py",
        "lib/__init__.py", "lib/nets.py", "lib/parts.py", "lib/tools.py",
    }  # fmt: skip
    assert read_sources(run)[project / "data.py"] == sha256(b"broken(\n")


def test_of_a_file_that_changed_meanwhile_nothing_is_known(project: Path) -> None:
    run = write_run(project)
    os.utime(project / "data.py", ns=(STARTED_NS + 1, STARTED_NS + 1))
    write_sources(load(run))
    assert project / "data.py" in find_sources(load(run))
    assert project / "data.py" not in read_sources(run)


@pytest.mark.parametrize("text", [None, "", "[]", '{"sha256": [1]}', '{"sha256": {"/x.py": 3}}'])
def test_without_a_list_nothing_is_known(project: Path, text: str | None) -> None:
    run = write_run(project)
    if text is not None:
        (run / FILE).write_text(text)
    assert read_sources(run) == {}
