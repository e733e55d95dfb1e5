"""Every ``gapless …`` command that the docs and the README show is one that gapless takes.

All are parsed by the real parser, and those in blocks are run: those that only print a page or read
a recorded run here, on the run kept with the tests; those that start trainings many times in
``test_commands_stood_in.py``; the others in ``test_commands_run.py``.
"""

import argparse
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from gapless import cli
from tests.traces import recorded_run

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE: Final = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(r"^\s*(?:- run: |\$ )?(gapless [a-z]+(?: .*)?)$", re.MULTILINE)
_SPAN: Final = re.compile(r"`(gapless [a-z]+(?:\s[^`]*)?)`")
_COMMENT: Final = re.compile(r"\s{2,}.*|\s#\s.*")
_SHELL: Final = re.compile(r"\s(?:\||>|&&|;)\s.*")
# A sentence may name a command or an option without its argument: `gapless open`.
_IS_INCOMPLETE: Final = re.compile("arguments are required|expected (?:one|at least one) argument")
_STANDS_FOR: Final = {"PID": "12345", "$(pgrep -f train.py)": "12345"}
_IS_RUN: Final = re.compile(
    r"gapless (?:explain(?: (?!CODE|NAME)\S+)?|runs(?: list| show last)?(?: --json)?"
    r"|report(?: last| 2026-11-21)?(?: --(?:full|json|markdown|no-cache|section [a-z]+"
    r"|price [\d.]+|(?:html|perfetto) [a-z.]+))*)"
)


def commands_in_blocks(text: str) -> Iterator[str]:
    for block in _FENCE.findall(text):
        yield from map(strip_command, _LINE.findall(block))


def commands_in_sentences(text: str) -> Iterator[str]:
    for span in _SPAN.findall(_FENCE.sub("", text).replace("\\|", "|")):
        yield strip_command(" ".join(span.split()))


def strip_command(line: str) -> str:
    """Return a line without the comment beside it, and without what the shell does with it."""
    for word, value in _STANDS_FOR.items():
        line = line.replace(word, value)
    return _SHELL.sub("", _COMMENT.sub("", line)).strip()


def collect(commands: list[str]) -> list[str]:
    """Return the commands once each, without sentences about gapless and forms of a synopsis."""
    return sorted({command for command in commands if not re.search(r"[·\[]| \.\.\.$", command)})


TEXTS: Final = [page.read_text(encoding="utf-8") for page in PAGES]
IN_BLOCKS: Final = collect([line for text in TEXTS for line in commands_in_blocks(text)])
IN_SENTENCES: Final = collect([span for text in TEXTS for span in commands_in_sentences(text)])
RUN: Final = [line for line in collect([*IN_BLOCKS, *IN_SENTENCES]) if _IS_RUN.fullmatch(line)]


Parse = Callable[[str], argparse.Namespace]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Parse:
    """Return a function that has the command line parse a command, and run nothing.

    It raises ``ValueError`` with what the command line prints if it does not take the command.
    """
    parsed: list[argparse.Namespace] = []

    def keep(arguments: argparse.Namespace) -> int:
        parsed.append(arguments)
        return 0

    for name in cli.COMMANDS:
        monkeypatch.setattr(cli.module_of(name), "main", keep)

    def parse(command: str) -> argparse.Namespace:
        if cli.main(shlex.split(command)[1:]):
            raise ValueError(capsys.readouterr().err)
        return parsed.pop()

    return parse


@pytest.mark.parametrize("command", IN_BLOCKS)
def test_commands_in_blocks_parse(command: str, parse: Parse) -> None:
    assert parse(command).command == command.split()[1]


@pytest.mark.parametrize("command", IN_SENTENCES)
def test_commands_in_sentences_parse(command: str, parse: Parse) -> None:
    try:
        assert parse(command).command == command.split()[1]
    except ValueError as error:
        if not _IS_INCOMPLETE.search(str(error)):
            raise


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working folder whose last run is the one kept with the tests."""
    path = tmp_path_factory.mktemp("work")
    shutil.copytree(recorded_run().parent, path / ".gapless/runs")
    return path


@pytest.mark.parametrize("command", RUN)
def test_commands_that_read_run(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GAPLESS_CACHE", str(folder / "cache"))
    assert cli.main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    written = [word for word in command.split() if word.partition(".")[2] in {"html", "json"}]
    assert output.out or output.err
    assert all((folder / name).stat().st_size for name in written)


def test_every_command_is_shown_and_some_are_run() -> None:
    assert {command.split()[1] for command in IN_BLOCKS} == set(cli.COMMANDS)
    assert len(RUN) > 10


def test_a_wrong_option_is_found(parse: Parse) -> None:
    assert [*commands_in_blocks("```sh\n$ gapless try --fixx foreach  # no\n```\n")] == [
        "gapless try --fixx foreach"
    ]
    with pytest.raises(ValueError, match="--fixx"):
        parse("gapless try --fixx foreach")
