"""Print the difference of B and A, per step: causes, settings, operators, kernels.

A and B are recorded runs (folders, ids, beginnings of ids, "last", packed files) or traces (paths
as for gapless open). Figures are means over the counted steps, so captures of different length
compare; of a run they are its un-profiled steps. Operators are matched by name (with --by-shape:
and shapes), kernels by name and launch geometry. Of two runs it also says what was set otherwise,
which causes are gone or new, and which setting explains which part of the difference.

Examples:
  gapless compare 2026-11-21T17 last             two runs of this folder
  gapless compare before.json.gz after.json.gz
  gapless compare ./log-main ./log-branch --top 20
  gapless compare before.json after.json --json | jq '.groups'

"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless.model.facts import Facts
    from gapless.model.study import Study
    from gapless.study import Options

SUMMARY = "print what changed between two runs or traces"
_PACKED: Final = (".tar.zst", ".tar.gz", ".zip")  # a run that was sent (gapless runs pack)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless compare``."""
    parser.usage = "gapless compare A B [options]"
    from gapless.commands.options import add_forms, add_selection

    parser.add_argument("a", metavar="A", help="run, file, folder or pattern: before")
    parser.add_argument("b", metavar="B", help="run, file, folder or pattern: after")
    parser.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, help="the folder of runs (.gapless/runs)"
    )
    parser.add_argument("--full", action="store_true", help="of runs: leaves and tables as well")
    add_selection(parser)
    add_forms(parser)


def main(arguments: argparse.Namespace) -> int:
    """Open both and print the difference."""
    import tempfile

    from gapless.commands.heap import settle_heap
    from gapless.commands.options import progress, study_options
    from gapless.report.forms import write_comparison
    from gapless.study.comparison import compare

    settle_heap()
    options = study_options(arguments)
    with progress() as say, tempfile.TemporaryDirectory(prefix="gapless-compare-") as scratch:
        (a, facts_a), (b, facts_b) = (
            _open_side(name, arguments.place, Path(scratch) / side, options, say)
            for name, side in ((arguments.a, "a"), (arguments.b, "b"))
        )
    write_comparison(compare(a, b, (facts_a, facts_b)), arguments)
    return 0


def _open_side(
    name: str,
    home: Path | None,
    scratch: Path,
    options: "Options",
    say: "Callable[[str], None]",
) -> "tuple[Study, Facts | None]":
    """Return the study of a run or of traces, and the facts of a run."""
    from msgspec.structs import replace

    from gapless.recorded.facts import facts
    from gapless.store.run.recordings import load
    from gapless.study import open_study, study_recording

    folder = _find_run(name, home, scratch)
    if folder is None:
        return open_study([name], options, say), None
    recording = load(folder)
    study = study_recording(recording, options, say)
    run_id = recording.manifest.id
    shown_path = name if run_id in name or not run_id else f"{name} ({run_id})"
    return replace(study, run=replace(study.run, paths=(shown_path,))), facts(recording)


def _find_run(name: str, home: Path | None, scratch: Path) -> Path | None:
    """Return the folder of a run that is meant; ``None``: traces are. Raises ``GaplessError``."""
    from gapless.errors import NotFoundError
    from gapless.store.run import runs
    from gapless.store.run.unpack import unpack

    path = Path(name)
    if path.is_file() and name.endswith(_PACKED):
        scratch.mkdir()
        return unpack(path, scratch)
    if path.is_dir():
        return path if runs.is_run(path) else _last_run(path)
    if path.exists() or any(sign in name for sign in "/*?["):
        return None
    try:
        return runs.find(home or runs.home(), name)
    except NotFoundError:
        if home is not None or name == runs.LAST_RUN:
            raise
        return None


def _last_run(folder: Path) -> Path | None:
    """Return the last run in a folder of runs; ``None`` where it holds none."""
    from gapless.errors import NotFoundError
    from gapless.store.run import runs

    try:
        return runs.find_here(folder, runs.LAST_RUN)
    except NotFoundError:
        return None
