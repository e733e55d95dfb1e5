"""Measure revisions: ``python -m benchmarks.house REV… [--tests REV LOG] [--out OUT]``.

Of each: files and lines, also by room, lengths of functions, names that name nothing and classes
that share one (by ``tests/house/test_names.py`` of today), what the recorder keeps in a process
outside its one object (by ``tests/house/test_recorder_state.py``), folders with more than 15
files, circles of imports, the bytes of the work tree, and what ``gapless --help`` and ``gapless
report`` of a run that was reported before import, and the processor time they take: the median of
runs in turns, with warm bytecode. How long the tests take is read from what ``scripts/test``
printed at a revision.
"""

import argparse
import ast
import os
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, write_result
from tests.house.test_names import bindings, functions, is_bare, is_dunder, is_pronoun
from tests.house.test_recorder_state import count_fork_handlers, loose_state
from tests.traces import recorded_run

ROOT: Final = Path(__file__).resolve().parents[1]
_MAX_FILES: Final = 15  # side by side
_ROUNDS: Final = 9
_PACKAGE: Final = "gapless"
_CLOSING_LINE: Final = re.compile(r"=+ (?P<counts>[^=]*) in (?P<seconds>[0-9.]+)s\b")


def measured_commands() -> Mapping[str, Sequence[str]]:
    """Return the arguments of what is measured, by name."""
    return {"help": ("--help",), "report": ("report", str(recorded_run()))}


def extract(revision: str, folder: Path) -> Path:
    """Write the source of a revision into a folder, and return that of the package."""
    archive = folder / "source.tar"
    command = ["git", "archive", "-o", str(archive), revision, "src"]
    subprocess.run(command, cwd=ROOT, check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "src" / _PACKAGE


def measure_source(package: Path) -> dict[str, Any]:
    """Return the figures of a package that need no run of it."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lengths = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    variables = [name for tree in trees.values() for name in bindings(tree) if not is_dunder(name)]
    verbs = [name for tree in trees.values() for name in functions(tree) if not is_dunder(name)]
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    payload = [tree for path, tree in trees.items() if "payload" in path.relative_to(package).parts]
    files_by_folder = Counter(path.parent for path in texts if path.name != "__init__.py")
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "rooms": count_lines(package, texts),
        "functions": len(lengths),
        "function_median": statistics.median(lengths),
        "function_p95": lengths[int(0.95 * len(lengths))],
        "variables_without_noun": sum(map(is_pronoun, variables)) / len(variables),
        "functions_without_verb": sum(map(is_bare, verbs)) / len(verbs),
        "classes_that_share_a_name": sum(count > 1 for count in classes.values()),
        "large_folders": sum(count > _MAX_FILES for count in files_by_folder.values()),
        "loose_recorder_state": sum(len([*loose_state(tree)]) for tree in payload),
        "fork_handlers": count_fork_handlers(payload),
        "modules_in_circles": len(find_circles(import_graph(package.parent, trees))),
    }


def count_lines(package: Path, texts: Mapping[Path, str]) -> dict[str, int]:
    """Return the lines of each room, the largest first; modules beside rooms are left out."""
    lines = Counter[str]()
    for path, text in texts.items():
        room, *inner_parts = path.relative_to(package).parts
        if inner_parts:
            lines[room] += text.count("\n")
    return dict(lines.most_common())


def read_test_log(log: Path) -> dict[str, Any]:
    """Return what the closing line of pytest says. Raises ``ValueError`` if there is none."""
    matches = list(_CLOSING_LINE.finditer(log.read_text(encoding="utf-8")))
    if not matches:
        raise ValueError(f"{log} has no closing line of pytest")
    counts = dict(part.split()[::-1] for part in matches[-1]["counts"].split(", "))
    return {name: int(count) for name, count in counts.items()} | {
        "s": float(matches[-1]["seconds"])
    }


def import_graph(source: Path, trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """Return which modules each imports when it is imported itself."""
    names = {path: ".".join(path.relative_to(source).with_suffix("").parts) for path in trees}
    modules = {name.removesuffix(".__init__") for name in names.values()}
    graph: dict[str, set[str]] = {}
    for path, tree in trees.items():
        package = names[path].rpartition(".")[0]
        graph[names[path].removesuffix(".__init__")] = {
            target
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for target in _targets(node, package, modules)
        }
    return graph


def _targets(node: ast.ImportFrom, package: str, modules: set[str]) -> Iterator[str]:
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    module = ".".join(part for part in (base, node.module or "") if part)
    for alias in node.names:
        target = f"{module}.{alias.name}"
        if target in modules or module in modules:
            yield target if target in modules else module


def find_circles(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the modules from which imports lead back to themselves."""
    reachable = {name: set(targets) - {name} for name, targets in graph.items()}
    n_before = -1
    while (n_pairs := sum(map(len, reachable.values()))) != n_before:
        n_before = n_pairs
        for targets in reachable.values():
            targets.update(*(reachable.get(name, ()) for name in tuple(targets)))
    return {name for name, targets in reachable.items() if name in targets}


def _processor_s() -> float:
    """Return the processor time of all commands so far: others on the machine lengthen it less."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_commands(sources: Mapping[str, Path], folder: Path) -> dict[str, dict[str, Any]]:
    """Return what commands of each revision import, and their times, measured in turns."""
    times: dict[str, dict[str, list[float]]] = {
        revision: {name: [] for name in measured_commands()} for revision in sources
    }
    for _ in range(_ROUNDS + 1):  # the first compiles, and fills the cache
        for revision, source in sources.items():
            for name, arguments in measured_commands().items():
                begin_s = _processor_s()
                _start(source, folder / revision, arguments)
                times[revision][name].append(_processor_s() - begin_s)
    return {
        revision: {
            name: {
                "s": statistics.median(times[revision][name][1:]),
                "modules": _count_modules(source, folder / revision, arguments),
            }
            for name, arguments in measured_commands().items()
        }
        for revision, source in sources.items()
    }


def _start(source: Path, cache: Path, arguments: Sequence[str], *options: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(source.parent), "GAPLESS_CACHE": str(cache)}
    command = [sys.executable, *options, "-m", _PACKAGE, *arguments]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return process.stderr


def _count_modules(source: Path, cache: Path, arguments: Sequence[str]) -> int:
    lines = _start(source, cache, arguments, "-X", "importtime").splitlines()
    imports = (line.rpartition("|")[2].strip() for line in lines if "import time:" in line)
    return sum(name.partition(".")[0] == _PACKAGE for name in imports)


def tree_bytes(revision: str) -> int:
    """Return the bytes of all files of a revision."""
    command = ["git", "ls-tree", "-r", "-l", revision]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    sizes = (line.partition("\t")[0].split()[3] for line in listing.splitlines())
    return sum(int(size) for size in sizes if size.isdigit())


def main() -> int:
    """Measure revisions beside one another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revisions", nargs="+")
    parser.add_argument("--tests", nargs=2, metavar=("REV", "LOG"), help="what its tests printed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources: dict[str, Path] = {}
        for revision in options.revisions:
            (folder / f"of-{revision}").mkdir()
            sources[revision] = extract(revision, folder / f"of-{revision}")
        costs = measure_commands(sources, folder)
        houses = {
            revision: {
                **measure_source(source),
                "tree_bytes": tree_bytes(revision),
                "commands": costs[revision],
            }
            for revision, source in sources.items()
        }
    if options.tests is not None:
        revision, log = options.tests
        houses[options.revisions[-1]]["tests"] = {"revision": revision} | read_test_log(Path(log))
    print(write_result({"machine": machine(), "houses": houses}, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
