"""Fail a build when a training became slower, and only if that is proven.

The training of this source and that of another revision are run briefly in turns, as fresh
processes; nothing is proven by one run. A regression that shows is measured once more with fresh
arms before the gate is red. A green gate says which slow-down it could have seen.

--against git:REV checks the revision out beside the repository, and removes it afterwards; what is
not in git (data) is linked into it with --link. --against DIR takes a folder that is there. Without
it the gate compares with a stored baseline (gapless-gate.json, written by --update on the same
kind of machine); that is coarser, since a machine has its days.

gapless-gate.toml may name the command, what to compare with, and budgets:

  command = ["python", "train.py", "--steps", "500"]
  against = "git:origin/main"

  [budgets]                 # of the step, its account, or memory
  step = "310 ms"
  data = "5 %"              # a group or a leaf of the account (docs/the-account.md)
  memory = "70 GB"

Exit codes: 0 nothing is proven · 1 a regression is proven, or a budget broken · 2 the gate could
not be measured.

Examples:
  gapless gate --against git:main -- python train.py
  gapless gate --against git:HEAD~1 --link data -- python train.py
  gapless gate --update -- python train.py       write the baseline of this machine
  gapless gate --format github                   annotations for GitHub; all else from the file

"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.gate.budgets import GateFile
    from gapless.gate.deciding import GateResult, GateTask

COMMAND_AFTER = "--"  # what follows is not an option of ours (cli)
SUMMARY = "for CI: fail if a training became slower, and that is proven"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless gate``."""
    from gapless.commands.options import budget

    parser.usage = "gapless gate [options] [-- COMMAND ...]"
    parser.allow_abbrev = False
    base_group = parser.add_argument_group("what to compare with")
    base_group.add_argument("--against", metavar="BASE", help="git:REV, or a folder (the baseline)")
    base_group.add_argument(
        "--link", metavar="PATH", action="append", default=[],
        help="also in the checked out revision: data that is not in git",
    )  # fmt: skip
    base_group.add_argument(
        "--file", metavar="TOML", type=Path, help="command, budgets (gapless-gate.toml)"
    )
    base_group.add_argument(
        "--baseline", metavar="JSON", type=Path, help="(gapless-gate.json, beside that file)"
    )
    base_group.add_argument("--update", action="store_true", help="measure and write the baseline")
    base_group.add_argument(
        "--add", action="store_true", help="with --update: keep the sessions that it holds"
    )
    run_group = parser.add_argument_group("how")
    run_group.add_argument(
        "--target", metavar="PERCENT", type=share, default=0.05,
        help="measure until so small a slow-down would be seen (5)",
    )  # fmt: skip
    run_group.add_argument(
        "--budget", metavar="TIME", type=budget, default=600.0,
        help="no arm of a set begins later (10m)",
    )  # fmt: skip
    run_group.add_argument(
        "--arm", metavar="TIME", type=budget, default=4.0, help="steps of an arm take so long (4s)"
    )
    run_group.add_argument(
        "--apart", action="store_true", help="arms of a pair run one after the other"
    )
    run_group.add_argument("--out", metavar="DIR", type=Path, help="keep the arms' records there")
    run_group.add_argument(
        "--save", metavar="JSON", type=Path, help="also write what each arm measured"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=("text", "markdown", "github"), default="text")
    form.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")


def share(text: str) -> float:
    """Parse a number of per cent into a share. Raises what argparse turns into an error."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; for example 5%")
    return value


def main(arguments: argparse.Namespace) -> int:
    """Measure, print the verdict, and return 1 if it is red."""
    import tempfile

    from gapless.commands.options import progress, write_file
    from gapless.errors import UsageError
    from gapless.gate import budgets
    from gapless.gate.deciding import decide, update
    from gapless.gate.words import measured_json

    path = arguments.file or Path(budgets.FILE)
    gate_file = budgets.GateFile()
    if arguments.file is not None or path.exists():
        gate_file = budgets.read_file(path)
    if arguments.add and not arguments.update:
        raise UsageError("--add is for --update")
    with tempfile.TemporaryDirectory(prefix="gapless-gate-arms-") as scratch, progress() as say:
        task = _make_task(arguments, gate_file, path, Path(scratch))
        if arguments.update:
            baseline = update(task, say, adds=arguments.add)
            say("")
            n_sessions = len(baseline.sessions)
            print(f"{task.baseline}: written, {n_sessions} session{'s' * (n_sessions > 1)}")
            return 0
        result = decide(task, say)
    _print_result(result, arguments)
    if arguments.save is not None:
        write_file(measured_json(result).encode(), arguments.save)
    return int(result.is_red)


def _make_task(
    arguments: argparse.Namespace, gate_file: "GateFile", path: Path, scratch: Path
) -> "GateTask":
    from gapless.errors import UsageError
    from gapless.gate import baseline
    from gapless.gate.deciding import GateTask

    command = arguments.command_line or gate_file.command
    if not command:
        raise UsageError(f"which command? gapless gate -- python train.py, or name it in {path}")
    stored = arguments.baseline or path.with_name(baseline.FILE)
    against = arguments.against or (None if arguments.baseline else gate_file.against)
    return GateTask(
        command=tuple(command),
        folder=Path.cwd(),
        out=(arguments.out or scratch).absolute(),
        against=against,
        baseline=stored,
        budgets=gate_file.budgets,
        links=tuple(arguments.link),
        target=arguments.target,
        arm_s=arguments.arm,
        budget_s=arguments.budget,
        apart=arguments.apart,
    )


def _print_result(result: "GateResult", arguments: argparse.Namespace) -> None:
    import os

    from gapless.gate.words import FORMATS, json_of, markdown_of

    print(json_of(result) if arguments.json else FORMATS[arguments.format](result))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(markdown_of(result) + "\n")
