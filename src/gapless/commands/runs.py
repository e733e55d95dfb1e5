"""List, show, delete and pack the runs of .gapless/runs in the current folder.

A run is named by its id, by the beginning of it, or as "last". A packed run is one file to send:
its logs and windows, with ~ for your home folder; the command line is in it as you typed it.

Examples:
  gapless runs                                newest first; as gapless runs list
  gapless runs show last
  gapless runs delete 2026-11-20 --force
  gapless runs pack last -o slow.tar.zst      then: gapless runs unpack slow.tar.zst
  gapless runs --json | jq '.runs[0].path'

"""

import argparse
from pathlib import Path

SUMMARY = "list the recorded runs; show, delete, pack and unpack them"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``gapless runs`` and their options."""
    parser.set_defaults(act="list")
    _add_place(parser, None)
    acts = parser.add_subparsers(metavar="ACT")

    def add_act(name: str, summary: str, example: str) -> argparse.ArgumentParser:
        subparser = acts.add_parser(
            name,
            help=summary,
            formatter_class=parser.formatter_class,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example: gapless runs {name} {example}",
        )
        subparser.error = parser.error
        subparser.set_defaults(act=name)
        _add_place(subparser, argparse.SUPPRESS)
        return subparser

    add_act("list", "list the runs, newest first", "--json")
    add_act("show", "show what a run holds", "last").add_argument("run", metavar="ID")
    delete = add_act("delete", "delete runs with all that they hold", "2026-11-20")
    delete.add_argument("runs", metavar="ID", nargs="+")
    delete.add_argument("--force", action="store_true", help="also runs that go on")
    pack = add_act(
        "pack", "write a run into one file to send, and list what is in it", "last -o slow.zip"
    )
    pack.add_argument("run", metavar="ID")
    pack.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help=".tar.zst or .zip (ID.tar.zst)"
    )
    unpack = add_act("unpack", "add a packed run to the others", "slow.zip")
    unpack.add_argument("file", metavar="FILE", type=Path)


def _add_place(parser: argparse.ArgumentParser, default: str | None) -> None:
    """Add the options that are allowed before and after the action."""
    parser.add_argument(
        "--in", metavar="DIR", dest="place", type=Path, default=default,
        help="the folder of runs (.gapless/runs)",
    )  # fmt: skip
    parser.add_argument(
        "--json",
        action="store_true",
        default=default or False,
        help="print one JSON object (docs/json.md)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Perform the requested action, and print the result."""
    from gapless.commands import runs_actions, runs_text
    from gapless.store.run import runs

    result = runs_actions.perform(arguments, arguments.place or runs.home())
    runs_text.write(result, as_json=arguments.json)
    return 0
