"""Where nothing was recorded, the report says why."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from gapless.launch.run import reasons
from gapless.launch.run.finalize import CommandEnd
from gapless.launch.trial import enter_view
from tests.launch import starting

if TYPE_CHECKING:
    from gapless.launch import process_tree


@pytest.mark.parametrize(
    ("line", "options"),
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
def test_options_that_keep_the_recorder_out_are_known(line: str, options: str) -> None:
    assert reasons.find_shutting_options(line.split()) == set(options)


@pytest.mark.parametrize(
    ("command", "sightings", "reason"),
    [
        (["python", "-I", "x.py"], reasons.Sightings(), "-I (isolated)"),
        (["bash", "x.sh"], reasons.Sightings(python=True, shutting_options={"E"}), "-E"),
        (["env", "-i", "python"], reasons.Sightings(), "without the environment"),
        (
            ["bash"],
            reasons.Sightings(python=True, without_variables={"python"}),
            "without the environment",
        ),
        (["bash"], reasons.Sightings(python=True, torch=True), "no optimizer stepped"),
        (["bash"], reasons.Sightings(python=True), "to load PyTorch"),
        (["/usr/bin/python3", "x.py"], reasons.Sightings(), "to load PyTorch"),
        (["bash"], reasons.Sightings(), "no Python process"),
    ],
)
def test_what_was_seen_becomes_one_sentence(
    command: list[str], sightings: reasons.Sightings, reason: str
) -> None:
    assert reason in reasons.explain_nothing(command, sightings)


def test_a_command_that_failed_is_not_told_how_to_mark_its_steps() -> None:
    sightings = reasons.Sightings(python=True, torch=True)
    sentence = reasons.explain_nothing(["python"], sightings, has_failed=True)
    assert sentence == "it loaded PyTorch, and ended before its first step did"
    ends = [CommandEnd(code, 0) for code in (1, -signal.SIGSEGV, 0, -signal.SIGINT)]
    assert [end.has_failed for end in ends] == [True, True, False, False]


REASONS = {
    "exec {} -I seen.py {}": "-I (isolated)",
    "env -i {} seen.py {}": "without the environment",
    "{} seen.py {}": "to load PyTorch",
    "sleep 0.5": "no Python process",
}


def explain_script(script: str, folder: Path) -> tuple[str, str]:
    """Return what a run of a script says at its end, and what its folder says."""
    folder.mkdir()
    (folder / "seen.py").write_text(starting.SAMPLED_PROGRAM)
    (folder / "run.sh").write_text(script.format(sys.executable, starting.SAMPLES_LOG))
    process = starting.run(["bash", "run.sh"], folder, env={**os.environ, "HOME": str(folder)})
    unobserved = starting.read_unobserved(starting.run_folder(folder))
    return process.stderr.decode(), unobserved["training"]


@pytest.fixture(scope="module")
def explanations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return those of all scripts, which wait side by side."""
    folders = [tmp_path_factory.mktemp("reasons") / "run" for _ in REASONS]
    with ThreadPoolExecutor(len(REASONS)) as executor:
        return dict(zip(REASONS, executor.map(explain_script, REASONS, folders), strict=True))


@pytest.mark.parametrize("script", REASONS)
def test_it_is_seen_through_a_shell_script(
    script: str, explanations: dict[str, tuple[str, str]]
) -> None:
    assert all(REASONS[script] in explanation for explanation in explanations[script])


@pytest.mark.parametrize(
    ("script", "expected"),
    [("enter_view.py", (False, set[str]())), ("x.py", (True, {"I", "S", "B"}))],
)
def test_our_own_way_into_a_view_is_no_python_of_the_commands(
    tmp_path: Path, script: str, expected: tuple[bool, set[str]]
) -> None:
    path = Path(enter_view.__file__).with_name(script)
    words = [sys.executable, "-I", "-S", "-B", str(path), "/folder", "/place", "train"]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_text("\0".join([*words, ""]))
    (tmp_path / "7" / "environ").write_bytes(b"")
    (tmp_path / "7" / "maps").write_bytes(b"")
    members: object = SimpleNamespace(members=[7], proc=tmp_path)
    sightings = reasons.Sightings()
    sightings.look(cast("process_tree.Tree", members))
    assert (sightings.python, sightings.shutting_options) == (expected[0], expected[1] & {"I", "S"})
