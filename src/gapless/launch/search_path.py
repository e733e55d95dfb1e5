"""Keep the recorder's way in where the command sets ``PYTHONPATH`` itself.

``export PYTHONPATH=.`` in a script shuts the recorder out: that variable is its way in. So where a
command, or a script that it names, speaks of that variable, a folder is put in front of ``PATH``
for this run, with a small program by the name of each Python and each Python script that occurs
there. It adds our entry to ``PYTHONPATH`` again, takes the folder out of ``PATH`` again, and
becomes (``exec``) what would have been started without it: same process, same arguments.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.launch.environment import SITE

VARIABLE: Final = "PYTHONPATH"
_FOLDER: Final = "programs"  # of the spool
_MAX_SCRIPT_BYTES: Final = 1 << 18  # bytes of a script that is looked into
_MAX_SCRIPTS: Final = 40  # scripts
_HEAD_BYTES: Final = 200  # bytes of a program that show who reads it
# beside words of scripts
_SEPARATORS: Final = str.maketrans(dict.fromkeys("\"'`$(){}[];,&|<>=", " "))
_BUILD_FILES: Final = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile"),
}
_RUNNERS: Final = frozenset({"uv", "poetry", "pdm", "pixi", "conda", "mamba", "micromamba"})
_PYTHON_NAMES: Final = ("python", "python3")
_PROGRAM_TEXT: Final = """#!/bin/sh
# Of gapless, for one run: add its entry to PYTHONPATH again, and become the program meant.
own={own}
site={site}
case "$PATH" in *"$own:"*) PATH="${{PATH%%"$own:"*}}${{PATH#*"$own:"}}" ;; esac
case ":$PYTHONPATH:" in
  *":$site:"*) ;;
  *) PYTHONPATH="$site${{PYTHONPATH:+:$PYTHONPATH}}" ;;
esac
export PATH PYTHONPATH
exec "${{0##*/}}" "$@"
"""


def keep_entry(
    command: Sequence[str], variables: Mapping[str, str], spool: Path, folder: Path
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return a command to be run in a folder, and its environment, such that the way in is kept.

    They are as they were where nothing in the command speaks of ``PYTHONPATH``.
    """
    words, new_variables = _add_entry(command), dict(variables)
    with suppress(OSError, ValueError):
        texts = list(_read_texts(command, folder))[words != tuple(command) :]
        names = _name_programs(texts, variables.get("PATH", os.defpath), folder)
        if names and not os.statvfs(spool).f_flag & os.ST_NOEXEC:
            programs = _write_programs(spool / _FOLDER, names)
            new_variables["PATH"] = f"{programs}{os.pathsep}{variables.get('PATH', os.defpath)}"
    return words, new_variables


def remove(spool: Path) -> None:
    """Remove the programs that were put into a spool."""
    with suppress(OSError):
        for program in (spool / _FOLDER).iterdir():
            program.unlink()
        (spool / _FOLDER).rmdir()


def _add_entry(command: Sequence[str]) -> tuple[str, ...]:
    """Add our entry where ``env`` is given the variable."""
    words = list(command)
    if Path(command[0]).name == "env":
        for index, word in enumerate(words[1:], 1):
            name, separator, value = word.partition("=")
            if not separator and not word.startswith("-"):
                break
            if name == VARIABLE:
                words[index] = f"{VARIABLE}={SITE}{os.pathsep * bool(value)}{value}"
    return tuple(words)


def _name_programs(texts: Sequence[str], path: str, folder: Path) -> list[str]:
    """Return the programs that may be started without our entry; none where nothing sets it."""
    if not any(VARIABLE in text for text in texts):
        return []
    words = {word for text in texts for word in _words(text)} | {*_PYTHON_NAMES}
    folders = [Path(folder, entry) for entry in path.split(os.pathsep)]
    return sorted(word for word in words if "/" not in word and _leads_to_python(word, folders))


def _read_texts(command: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the words of a command, and the scripts that they name, and what those name."""
    yield "\n".join(command)
    pending = [*command, *(word for argument in command for word in _words(argument))]
    pending += _BUILD_FILES.get(Path(command[0]).name, ())
    read_paths = set[Path]()
    while pending and len(read_paths) < _MAX_SCRIPTS:
        path = Path(folder, pending.pop(0))
        text = None if path in read_paths else _read_text(path)
        if text is not None:
            read_paths.add(path)
            yield text
            pending += [word for word in _words(text) if Path(word).suffix in {".sh", ".bash"}]


def _read_text(path: Path) -> str | None:
    """Return what a small file of text holds."""
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= _MAX_SCRIPT_BYTES:
            content = path.read_bytes()
            return None if b"\0" in content else content.decode(errors="replace")
    return None


def _words(text: str) -> Iterator[str]:
    yield from text.translate(_SEPARATORS).split()


def _leads_to_python(name: str, folders: Sequence[Path]) -> bool:
    """Return whether the program that a name leads to is Python, is read by it or starts it."""
    if name in {".", ".."}:
        return False
    for folder in folders:
        path = folder / name
        if os.access(path, os.X_OK) and path.is_file():
            if name.startswith("python") or name in _RUNNERS:
                return True
            with path.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            return head.startswith(b"#!") and b"python" in head.partition(b"\n")[0]
    return False


def _write_programs(folder: Path, names: Sequence[str]) -> Path:
    """Make the folder of programs. Raises ``OSError``."""
    import shlex  # 3 ms that only this takes

    folder.mkdir(0o700)
    text = _PROGRAM_TEXT.format(own=shlex.quote(str(folder)), site=shlex.quote(str(SITE)))
    for name in names:
        path = folder / name
        path.write_text(text)
        path.chmod(0o700)
    return folder
