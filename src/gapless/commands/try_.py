"""Measure what an edit of a training is worth, without touching its source.

The training is run briefly, with and without each edit, in turns (A B B A B A A B), as fresh
processes of your own command; each leaves at a planned step. What comes out is a ratio with its
95 % interval, the noise of two unedited arms, and whether losses and samples stayed the same. Arms
see the working folder through a private view where the system lets them have one: what they write
there is thrown away.

RUN is a recorded run (its id, the beginning of it, its folder, or "last"); its command is run
again. With a command after "--" that command is tried. Without a choice of what to try, it tries
what the report of the run proposes first, as far as it changes no result (classes same and
equivalent); where it proposes nothing, the ceilings.

With --machine the training is not run: launches, copies, products, memory and processes are
measured in the interpreter of the run (12 s; 25 s with its GPU), and kept for 30 days. Reports of
runs on the same GPU, driver and torch predict with them, and say so.

Examples:
  gapless try                                  what the report of the last run proposes first
  gapless try --ceilings                       what data, copies and tails can be worth at most
  gapless try --fix more-workers=4 pin-memory  two edits, each by itself
  gapless try --fix more-workers=2+one-thread  two edits together
  gapless try --set DataLoader.num_workers=8 -- python train.py
  gapless try --machine                        what launches, copies, products take on this machine
  gapless try --list                           which edits there are, and which fit this run

"""

import argparse
from pathlib import Path

COMMAND_AFTER = "--"  # what follows is not an option of ours (cli)
SUMMARY = "measure what an edit of a training is worth"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless try``."""
    from gapless.commands.options import budget, positive

    parser.usage = "gapless try [RUN] [options] [-- COMMAND ...]"
    parser.allow_abbrev = False  # --s may be an option of the command's
    edit_group = parser.add_argument_group(
        "what to try", "each by itself; those joined by + as one"
    )
    for name, sign, words in (
        ("--fix", "NAME", "edits by name (--list)"),
        ("--set", "TARGET=VALUE", "any setting of torch's"),
    ):
        edit_group.add_argument(
            name, metavar=sign, nargs="+", action="extend", default=[], help=words
        )
    edit_group.add_argument("--ceilings", action="store_true", help="the most that could be gained")
    edit_group.add_argument(
        "--machine",
        action="store_true",
        help="only measure what the machine can do: later predictions use it",
    )
    edit_group.add_argument(
        "--together", action="store_true", help="all that is named, as one edit"
    )
    edit_group.add_argument(
        "--list", action="store_true", help="list the edits, and which fit the run"
    )
    change_group = parser.add_argument_group("what may change")
    change_group.add_argument(
        "--strict", action="store_true", help="only edits that change no result"
    )
    change_group.add_argument("--risky", action="store_true", help="also precision and behaviour")
    change_group.add_argument(
        "--override", action="store_true", help="also settings that carry meaning"
    )
    change_group.add_argument(
        "--allow-writes", metavar="PATH", type=Path, action="append", default=[],
        help="arms may write there, outside the working folder",
    )  # fmt: skip
    change_group.add_argument("--yes", action="store_true", help="ask nothing")
    run_group = parser.add_argument_group("how")
    run_group.add_argument(
        "--budget", metavar="TIME", type=budget, help="90s (4m; ceilings alone: 2m)"
    )
    run_group.add_argument(
        "--steps", metavar="N", type=positive, help="steps of an arm (as needed)"
    )
    way_group = run_group.add_mutually_exclusive_group()
    way_group.add_argument("--fresh", action="store_true", help="every arm in a new process")
    way_group.add_argument(
        "--in-process",
        action="store_true",
        help="switch edits in one process: quick, without losses; only those that can be",
    )
    run_group.add_argument(
        "--apart",
        action="store_true",
        help="arms run one after the other, never two in turns",
    )
    run_group.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, help="the folder of runs"
    )
    run_group.add_argument("--out", metavar="DIR", type=Path, help="where the arms' records go")
    run_group.add_argument(
        "--json", action="store_true", help="print one JSON object (docs/json.md)"
    )
    run_group.add_argument(
        "--html", metavar="FILE", type=Path, help="also write a page that works offline"
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder or id of a run (last)")


def main(arguments: argparse.Namespace) -> int:
    """Try what was requested, and print what it is worth."""
    from gapless.commands.trying import list_edits, measure_machine, try_edits

    if arguments.machine:
        return measure_machine(arguments)
    return list_edits(arguments) if arguments.list else try_edits(arguments)
