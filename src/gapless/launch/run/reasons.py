"""Why a run recorded nothing, as far as that can be known from outside."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

from msgspec import Struct, field

from gapless import wire
from gapless.launch.environment import SITE
from gapless.launch.process_tree import Tree

_PROC: Final = Path("/proc")
_SHUTTING_OPTIONS: Final = {  # options of Python that keep the recorder out
    "I": "-I (isolated): it ignores PYTHONPATH",
    "E": "-E: it ignores PYTHONPATH",
    "S": "-S: it does not import site",
}
_OTHER_PATH: Final = (
    "the command starts Python with PYTHONPATH={!r} of its own, in place of the one that leads to "
    "the recorder; let it add to what is there (PYTHONPATH=FOLDER:$PYTHONPATH), or set it before "
    "gapless (PYTHONPATH=FOLDER gapless run …)"
)
_NO_STEPS: Final = (
    "PyTorch was loaded, but no step ended: no optimizer stepped, no backward pass ran and no "
    "DataLoader was read; a loop of another kind says where its steps end: gapless.step()"
)
_FAILED_EARLY: Final = "it loaded PyTorch, and ended before its first step did"
_WITH_VALUE: Final = "WX"  # options that take a value, in the same word or in the next
_ENTRANCE: Final = str(  # ours: becomes the command
    Path(__file__).parents[1] / "trial" / "enter_view.py"
)
_PROGRAM_OPTIONS: Final = "cm"  # what follows is the program's
_MAX_EXAMINED: Final = 16  # processes that are examined at a time
_MAX_LOOKS: Final = 40  # at a process: it may become another program, and load PyTorch late


class Sightings(Struct):
    """What was noticed of the processes of a run."""

    python: bool = False
    torch: bool = False
    shutting_options: set[str] = field(default_factory=set[str])
    # names of those that lack our variables
    without_variables: set[str] = field(default_factory=set[str])
    foreign_path: str | None = None  # a PYTHONPATH that lacks our entry
    _lines: dict[int, str] = field(default_factory=dict[int, str])
    _looks: dict[int, int] = field(default_factory=dict[int, int])

    def pass_over(self, number: int) -> None:
        """Never examine a process: it is ours."""
        self._looks[number] = _MAX_LOOKS

    def look(self, tree: Tree) -> None:
        """Examine the processes that run now; again if one has become another program."""
        running = [number for number in tree.members if self._looks.get(number, 0) < _MAX_LOOKS]
        for number in sorted(running, key=lambda number: self._looks.get(number, 0))[
            :_MAX_EXAMINED
        ]:
            self._looks[number] = self._looks.get(number, 0) + 1
            folder = tree.proc / str(number)
            with suppress(OSError):
                line = (folder / "cmdline").read_bytes().decode(errors="replace")
                if self._lines.get(number) != line:
                    self._lines[number] = line
                    self._examine(line.split("\0")[:-1], folder)
                if not self.torch and is_python(line.partition("\0")[0]):
                    self.torch = b"libtorch" in (folder / "maps").read_bytes()

    def _examine(self, argv: list[str], folder: Path) -> None:
        if argv and is_python(argv[0]) and _ENTRANCE not in argv[1:6]:
            self.python = True
            self.shutting_options |= find_shutting_options(argv)
            variables = _variables((folder / "environ").read_bytes())
            path = variables.get("PYTHONPATH", "")
            if wire.SPOOL not in variables:
                self.without_variables.add(PurePath(argv[0]).name)
            elif str(SITE) not in path.split(os.pathsep):
                self.foreign_path = path


def _variables(environ: bytes) -> dict[str, str]:
    """Read the environment of a process, as the kernel shows it."""
    pairs = (entry.partition("=") for entry in os.fsdecode(environ).split("\0"))
    return {name: value for name, separator, value in pairs if separator}


def is_python(name: str) -> bool:
    """Return whether a program is a Python interpreter, by its name."""
    return PurePath(name).name.startswith(("python", "pypy"))


def runs_python(number: int) -> bool:
    """Return whether a process is a Python interpreter."""
    with suppress(OSError):
        line = (_PROC / str(number) / "cmdline").read_bytes().decode(errors="replace")
        return is_python(line.partition("\0")[0])
    return False


def find_shutting_options(argv: Sequence[str]) -> set[str]:
    """Return the options of a command line of Python that keep the recorder out."""
    options: set[str] = set()
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word in {"-", "--"} or word.startswith("--"):
            break
        letters = word[1:]
        for position, letter in enumerate(letters):
            options |= {letter} & set(_SHUTTING_OPTIONS)
            if letter in _PROGRAM_OPTIONS:
                return options
            if letter in _WITH_VALUE:
                if position == len(letters) - 1:
                    next(words, None)
                break
    return options


def explain_nothing(
    command: Sequence[str], sightings: Sightings, *, has_failed: bool = False
) -> str:
    """Return one sentence that says why nothing was recorded."""
    options = sightings.shutting_options or (
        find_shutting_options(command) if is_python(command[0]) else set()
    )
    if options:
        return f"Python was started with {_SHUTTING_OPTIONS[min(options)]}"
    if sightings.without_variables or (PurePath(command[0]).name == "env" and "-i" in command[1:2]):
        return "Python was started without the environment (env -i, sudo, a container)"
    if sightings.foreign_path is not None:
        return _OTHER_PATH.format(sightings.foreign_path)
    if sightings.torch:
        return _FAILED_EARLY if has_failed else _NO_STEPS
    if sightings.python or is_python(command[0]):
        return "no Python process was seen to load PyTorch"
    return "no Python process was seen"
