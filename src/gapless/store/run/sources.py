"""``sources.json`` of a run: which of the user's own source files it ran, and their SHA-256.

They are the script, the files in which the recorder saw something, and what these import from
beside them. They are read when the run ends; a file that was changed while it went on is listed
without a sum, since nobody knows which text was run.
"""

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.model.recording import Recording
from gapless.store.atomic import write_atomically
from gapless.store.logs.fields import members, parse, text

FILE: Final = "sources.json"
VERSION: Final = 1
_MAX_FILES: Final = 300  # the nearest to the script come first
_INSTALLED: Final = re.compile(r"/(site|dist)-packages/|/lib(64)?/(python|pypy)\d[^/]*/")
# Statements are looked for in the text: thousands of files are not worth parsing for that.
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import[ \t]*(\([^)]*|[^\n;]*)"
    r"|import[ \t]+([^\n;]*))",
    re.MULTILINE,
)
_COMMENT: Final = re.compile(r"#[^\n]*|[\\()]")
_OURS: Final = Path(__file__).parents[2]


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to an installed package, to Python, or to gapless."""
    return _INSTALLED.search(str(path)) is not None or _OURS in path.parents


def find_script(recording: Recording) -> Path | None:
    """Return the script that trained, if it is a file that is there."""
    for process in recording.processes:
        if process.role == "training" and process.argv:
            script = Path(recording.manifest.folder) / process.argv[0]
            if script.suffix == ".py" and script.is_file():
                return script
    return None


def find_sources(recording: Recording) -> tuple[Path, ...]:
    """Return the user's own source files that a run is known to have run, as far as they exist."""
    script = find_script(recording)
    seen_files = {fact.file for process in recording.processes for fact in process.facts}
    seen_files |= {
        file
        for process in recording.processes
        for stack in process.stacks
        for file, _, _ in stack.frames
    }
    candidates = [Path(file) for file in sorted(filter(None, seen_files)) if file.endswith(".py")]
    files = [*filter(None, [script]), *candidates]
    return follow_imports(files, script, Path(recording.manifest.folder))


def follow_imports(files: Iterable[Path], script: Path | None, folder: Path) -> tuple[Path, ...]:
    """Return the user's own among some files, and what they import from beside the script."""
    # Python looks for modules beside what a link leads to.
    roots = [folder] if script is None else [script.resolve().parent, folder]
    sources = dict.fromkeys(filter(_is_own, files))
    pending = deque(sources)
    while pending and len(sources) < _MAX_FILES:
        for path in _imported_files(pending.popleft(), roots):
            if path not in sources and _is_own(path):
                sources[path] = None
                pending.append(path)
    return tuple(sources)


def _is_own(path: Path) -> bool:
    return path.is_absolute() and not is_installed(path) and path.is_file()


def _imported_files(path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield where the modules would lie that a file imports, and their packages."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for match in _IMPORT.finditer(text):
        dots, module, names, modules = match.groups()
        if modules is not None:
            for name in _split_names(modules):
                yield from _module_files(name.split("."), roots)
            continue
        places = [path.parents[len(dots) - 1]] if 0 < len(dots) <= len(path.parents) else roots
        words = module.split(".") if module else []
        for name in (None, *_split_names(names)):
            yield from _module_files([*words, name] if name else words, places)


def _split_names(text: str) -> Iterator[str]:
    """Yield the names in the list of an import, without what they are renamed to."""
    for item in _COMMENT.sub("", text).split(","):
        words = item.split()
        if words and re.fullmatch(r"[\w.]+", words[0]):
            yield words[0]


def _module_files(words: list[str], roots: Sequence[Path]) -> Iterator[Path]:
    for root in roots:
        for depth in range(1, len(words) + 1):
            place = root.joinpath(*words[:depth])
            yield place / "__init__.py"
        if words:
            yield root.joinpath(*words).with_suffix(".py")


def write_sources(recording: Recording) -> None:
    """Write the sums of a run that has just ended into its folder. Raises ``OSError``."""
    started_ns = recording.manifest.started_unix_ns
    sums = {str(path): _sum_unchanged(path, started_ns) for path in find_sources(recording)}
    with write_atomically(Path(recording.path) / FILE) as unfinished:
        document = {"version": VERSION, "sha256": sums}
        unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _sum_unchanged(path: Path, started_unix_ns: int) -> str | None:
    with suppress(OSError):
        content = path.read_bytes()
        return None if path.stat().st_mtime_ns > started_unix_ns else sha256(content)
    return None


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def read_sources(run: Path) -> Mapping[Path, str]:
    """Return the sums of the files whose text is known to be what was run; empty: none is."""
    with suppress(OSError):
        sums = members((parse((run / FILE).read_bytes()) or {}).get("sha256"))
        known_sums = {Path(path): text(value) for path, value in sums.items()}
        return {path: value for path, value in known_sums.items() if value is not None}
    return {}
