"""gapless as a library: what ``import gapless`` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

import gapless
from tests.study import writing


def test_a_path_becomes_a_study(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = gapless.open(path, steps=3, by_shape=True, cache=False)
    assert isinstance(study, gapless.Study)
    assert study.account.wall_ns == 1_000_000
    comparison = gapless.compare(study, study)
    assert comparison.a.step_ns == comparison.b.step_ns == 1_000_000


def test_bad_input_raises_nothing_but_gapless_error(tmp_path: Path) -> None:
    for name, content in (("a.json", ""), ("b.json", "{}"), ("c.json", "\0\0")):
        (tmp_path / name).write_text(content)
        with pytest.raises(gapless.GaplessError):
            gapless.open(tmp_path / name, cache=False)
    with pytest.raises(gapless.GaplessError):
        gapless.open(tmp_path / "gone")
    with pytest.raises(gapless.GaplessError):
        gapless.open()


def test_the_version_is_that_of_the_package() -> None:
    assert gapless.__version__.startswith("0.")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        gapless.__getattr__("nothing")


def test_importing_gapless_imports_nothing_heavy() -> None:
    script = "import sys, gapless; print([m for m in ('numpy', 'rich') if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_a_script_without_a_guarded_main_opens_many_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        info = {"rank": rank, "world_size": 2}
        writing.write(tmp_path / f"rank{rank}.json", writing.training(), distributedInfo=info)
    script = tmp_path / "script.py"
    script.write_text(
        "import gapless\n"
        f"print('ranks', gapless.open({str(tmp_path / '*.json')!r}, cache=False).run.ranks)\n"
    )
    process = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert process.stdout == "ranks (0, 1)\n"
