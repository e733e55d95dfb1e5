"""Write proven fixes into the source: show the diff, then --apply, --check or --undo.

What trials of a run have proven (gapless tune, gapless try) is written into your own source files,
as the smallest change of their text. Without an option nothing is written: a unified diff is shown,
each change with the gain that was measured, then what has to be written by hand and why, and the
command that goes on.

RUN is a recorded run (its id, the beginning of it, its folder, or "last").

--apply writes all files or none. It refuses files that have changed since the run, and a git tree
with uncommitted changes: --force overrides the latter. --undo restores the files to the byte, also
after an apply that was killed half-way. --check writes nothing: it runs the program briefly in a
private view of its folder, with the edits applied from outside and then patched, and compares
settings, samples and losses; exit code 1 if they differ. Installed packages are never edited.

Examples:
  gapless fix                            the diff of what is proven for the last run
  gapless fix --list                     which fixes these are, and their gains
  gapless fix --fix more-workers         the diff of this one alone
  gapless fix --check                    does the patched program train as it was tried?
  gapless fix --apply                    write it
  gapless fix --undo                     restore what was before
  gapless fix --out speed.patch          a file for git apply, or patch -p1
  gapless fix --from tuned.json          what gapless tune wrote elsewhere
  gapless fix --unproven                 also what is proposed, and no trial has proven

"""

import argparse
from pathlib import Path

SUMMARY = "write what is proven into the source; it can be undone"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless fix``."""
    parser.usage = "gapless fix [RUN] [options]"
    fix_group = parser.add_argument_group("which fixes")
    fix_group.add_argument(
        "--fix", metavar="NAME", nargs="+", action="extend", default=[], help="only these (--list)"
    )
    fix_group.add_argument(
        "--from", dest="file", metavar="FILE", type=Path, help="those of this file"
    )
    fix_group.add_argument(
        "--unproven", action="store_true", help="also those proposed that no trial has proven"
    )
    what_group = parser.add_argument_group("what to do (without one: show the diff)")
    action_group = what_group.add_mutually_exclusive_group()
    action_group.add_argument("--apply", action="store_true", help="write the files")
    action_group.add_argument(
        "--undo", action="store_true", help="restore what the last --apply changed"
    )
    action_group.add_argument(
        "--check", action="store_true", help="run the patched program briefly"
    )
    action_group.add_argument("--out", metavar="FILE", type=Path, help="write the patch to a file")
    action_group.add_argument("--list", action="store_true", help="list the fixes and their gains")
    manner_group = parser.add_argument_group("how")
    manner_group.add_argument(
        "--force", action="store_true", help="also where the git tree is not clean"
    )
    manner_group.add_argument(
        "--allow-writes", metavar="PATH", type=Path, action="append", default=[],
        help="--check may write there, outside the working folder",
    )  # fmt: skip
    manner_group.add_argument("--yes", action="store_true", help="ask nothing")
    manner_group.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, help="the folder of runs"
    )
    manner_group.add_argument(
        "--json", action="store_true", help="print one JSON object (docs/json.md)"
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder or id of a run (last)")


def main(arguments: argparse.Namespace) -> int:
    """Do what was requested with the proven fixes, and return the exit code."""
    from gapless.commands.fixing import fix, undo

    return undo(arguments) if arguments.undo else fix(arguments)
