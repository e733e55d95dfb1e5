"""Check the machine and its software: what slows trainings down here, and what to type against it.

Each check gives a verdict (bad, warn, unknown, ok), what it saw, and a command. What is measured
(products, memory, copies, launches) is compared with what the hardware is known to reach. The
software is that of the interpreter that runs trainings here: of the last run in this folder, else
the first python on PATH. Nothing is changed or left behind.

Exit code: 1 if a check is bad, else 0: warnings and what could not be seen do not count.

Examples:
  gapless doctor
  gapless doctor --fast                  without measuring: below 5 s
  gapless doctor --data ./imagenet       also: what the storage of the data can feed
  gapless doctor --python ~/venv/bin/python
  gapless doctor --full                  also what is well
  gapless doctor --only gpu,shared-memory   these checks alone: cheap enough to repeat
  gapless doctor --json | jq '.checks[] | select(.verdict == "bad")'

"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.doctor.interpreter import InterpreterChoice

SUMMARY = "check the machine and its software"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless doctor``."""
    from gapless.commands.options import add_forms

    parser.add_argument("--fast", action="store_true", help="measure nothing: below 5 s")
    parser.add_argument(
        "--data",
        metavar="PATH",
        type=Path,
        help="a folder or file of data: how fast it is read, cold and warm (reads only)",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter that runs trainings (of the last run, else on PATH)",
    )
    parser.add_argument(
        "--only", metavar="NAMES", help="these checks alone, parted by commas (docs/doctor.md)"
    )
    parser.add_argument("--full", action="store_true", help="print also what is well")
    parser.add_argument("--in", metavar="DIR", dest="place", type=Path, help="the folder of runs")
    add_forms(parser)


def main(arguments: argparse.Namespace) -> int:
    """Check the machine, print the results, and return 1 if one is bad."""
    import time

    began_s = time.monotonic()
    from gapless.commands.options import progress
    from gapless.doctor.checks import wants_measuring
    from gapless.doctor.checkup import CheckupRequest, check_machine
    from gapless.errors import NotFoundError, UsageError
    from gapless.model.checkup import CheckVerdict
    from gapless.report.checkup import checkup_lines
    from gapless.report.documents.checkup import checkup_json
    from gapless.report.text.console import pen_for

    if arguments.fast and arguments.data is not None:
        raise UsageError("--fast measures nothing; leave it out, or --data")
    if arguments.data is not None and not arguments.data.exists():
        raise NotFoundError(f"{arguments.data}: there is no such file or folder")
    names = _parse_names(arguments)
    choice = _choose(arguments, names)
    is_fast = arguments.fast or not wants_measuring(names)
    request = CheckupRequest(choice, began_s, is_fast, arguments.data, names)
    with progress() as say:
        checkup = check_machine(request, say)
    if arguments.json:
        sys.stdout.write(checkup_json(checkup))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(checkup_lines(checkup, pen, is_full=arguments.full))
    return int(any(result.verdict is CheckVerdict.BAD for result in checkup.results))


def _parse_names(arguments: argparse.Namespace) -> frozenset[str]:
    """Return the checks of ``--only``; raise ``UsageError`` for one that cannot be run."""
    from gapless.doctor.checks import list_checks
    from gapless.errors import UsageError

    if arguments.only is None:
        return frozenset()
    names = frozenset(name.strip() for name in arguments.only.split(","))
    checks = list_checks(is_measured=not arguments.fast, has_data=arguments.data is not None)
    unknown = sorted(names - checks.keys())
    if unknown:
        words = "gapless explain lists them; what is measured is not in --fast, data needs --data"
        raise UsageError(f"--only {','.join(unknown)}: no such check here: {words}")
    return names


def _choose(arguments: argparse.Namespace, names: frozenset[str]) -> "InterpreterChoice":
    """Return the interpreter to ask; none, at no cost, where no wanted check needs one."""
    import os

    from gapless.doctor.checks import needs_interpreter
    from gapless.doctor.interpreter import InterpreterChoice, choose_interpreter

    if not needs_interpreter(names):
        return InterpreterChoice(None, "none was asked", is_guess=False)
    recorded = None if arguments.python else _find_recorded(arguments.place)
    return choose_interpreter(arguments.python, recorded, os.environ.get("PATH"))


def _find_recorded(place: Path | None) -> str | None:
    """Return the interpreter of the last run here; ``None`` where none is recorded."""
    from gapless.errors import GaplessError
    from gapless.store.run import runs

    if not (place or runs.home()).is_dir():
        return None
    from gapless.store.run.recordings import load
    from gapless.study.run_constants import find_interpreter

    try:
        target = find_interpreter(load(runs.find_here(place or runs.home(), runs.LAST_RUN)))
    except GaplessError:
        return None
    return None if target is None else target.python
