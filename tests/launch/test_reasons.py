"""Where nothing was recorded, the report says why."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gapless.launch import reasons, tree
from tests.launch import starting


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("python train.py -I", ""),
        ("python -I train.py", "I"),
        ("python3.12 -uE -m train", "E"),
        ("python -S -c 1", "S"),
        ("python -c -I", ""),
        ("python -X I -W E train.py", ""),
        ("python -XI -WE -OO train.py", ""),
        ("python -W ignore -Is x", "I"),
        ("python --check-hash-based-pycs always", ""),
        ("python - -I", ""),
    ],
)
def test_options_that_keep_the_recorder_out_are_known(line: str, found: str) -> None:
    assert reasons.shut_out(line.split()) == set(found)


SEEN = reasons.Sightings(python=True)


@pytest.mark.parametrize(
    ("command", "seen", "said"),
    [
        (["python", "-I", "x.py"], reasons.Sightings(), "-I (isolated)"),
        (["bash", "x.sh"], reasons.Sightings(python=True, shut={"E"}), "-E"),
        (["env", "-i", "python"], reasons.Sightings(), "without the environment"),
        (["bash"], reasons.Sightings(python=True, without={"python"}), "without the environment"),
        (["bash"], reasons.Sightings(python=True, torch=True), "no optimizer stepped"),
        (["bash"], reasons.Sightings(python=True), "to load PyTorch"),
        (["/usr/bin/python3", "x.py"], reasons.Sightings(), "to load PyTorch"),
        (["bash"], reasons.Sightings(), "no Python process"),
    ],
)
def test_what_was_seen_becomes_one_sentence(
    command: list[str], seen: reasons.Sightings, said: str
) -> None:
    assert said in reasons.why_nothing(command, seen)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exec {} -I seen.py {}", "-I (isolated)"),
        ("env -i {} seen.py {}", "without the environment"),
        ("{} seen.py {}", "to load PyTorch"),
        ("sleep 0.5", "no Python process"),
    ],
)
def test_it_is_seen_through_a_shell_script(script: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(starting.SEEN)
    (tmp_path / "run.sh").write_text(script.format(sys.executable, starting.LOOKS))
    done = starting.run(["bash", "run.sh"], tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    assert said in done.stderr.decode()
    assert said in starting.unseen(starting.folder(tmp_path))["training"]


@pytest.mark.parametrize(
    ("script", "found"), [("enter_view.py", (False, set[str]())), ("x.py", (True, {"I", "S", "B"}))]
)
def test_our_own_way_into_a_view_is_no_python_of_the_commands(
    tmp_path: Path, script: str, found: tuple[bool, set[str]]
) -> None:
    path = Path(reasons.__file__).with_name(script)
    words = [sys.executable, "-I", "-S", "-B", str(path), "/folder", "/place", "train"]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_text("\0".join([*words, ""]))
    (tmp_path / "7" / "environ").write_bytes(b"")
    (tmp_path / "7" / "maps").write_bytes(b"")
    members: object = SimpleNamespace(members=[7], proc=tmp_path)
    seen = reasons.Sightings()
    seen.look(cast("tree.Tree", members))
    assert (seen.python, seen.shut) == (found[0], found[1] & {"I", "S"})
