"""Measure what the input of a training costs, stage by stage, and what each alternative would cost.

The command is started again in its own interpreter and taken over where its loader is first gone
through. There, in the place of training, some hundred of its own samples are read, decoded,
augmented, collated, handed over, pinned and copied, in rounds; and so are the other ways that are
installed here: other decoders, recycled buffers, batches of bytes. Then the process ends: no step
is taken, and what it wrote below its folder is thrown away, as in a trial.

RUN is a recorded run (its id, the beginning of it, its folder, or "last"): what a step would take
is replayed from it. With a command after "--" that command is measured.

Ctrl-C ends it, and prints what was measured until then.

Examples:
  gapless data                            the input of the last run
  gapless data --samples 1000 --seconds 120
  gapless data -- python train.py         a command that was never recorded
  gapless data --json | jq '.input.costs[] | select(.is_now)'

"""

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from gapless.model.recording import Recording

COMMAND_AFTER = "--"  # what follows is not an option of ours (cli)
SUMMARY = "measure what the input costs, and what alternatives would"
_INTERRUPTED = 130  # Ctrl-C, as the shell reports it
_SAMPLES = 256
_SECONDS = 45.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless data``."""
    from gapless.commands.options import add_takeover, positive

    parser.usage = "gapless data [RUN] [options] [-- COMMAND ...]"
    parser.allow_abbrev = False  # --s may be an option of the command's
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder or id of a run (last)")
    parser.add_argument(
        "--samples", metavar="N", type=positive, default=_SAMPLES, help=f"samples ({_SAMPLES})"
    )
    add_takeover(parser, _SECONDS, "the command's start")


def main(arguments: argparse.Namespace) -> int:
    """Measure the input of a command, and print the table."""
    from gapless.commands.options import progress, tell
    from gapless.commands.trying import ask_permission
    from gapless.feeding.arm import InputPlan
    from gapless.feeding.measuring import InputTask, loader_lines, measure_input
    from gapless.report.documents.measurements import input_json
    from gapless.report.input_costs import input_lines
    from gapless.report.text.console import pen_for

    recording, command, folder = _find_subject(arguments)
    has_private_view = ask_permission(arguments, recording, folder)
    plan = InputPlan(
        command,
        folder,
        has_private_view,
        loader_lines(recording),
        arguments.samples,
        arguments.seconds,
    )
    with progress() as say:
        try:
            costs = measure_input(InputTask(plan, recording), say)
        except KeyboardInterrupt:
            say("")
            tell("interrupted before anything was measured")
            return _INTERRUPTED
    if arguments.json:
        sys.stdout.write(input_json(costs))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(input_lines(costs, pen))
    return 0 if costs.is_complete else (1 if costs.failed else _INTERRUPTED)


def _find_subject(
    arguments: argparse.Namespace,
) -> "tuple[Recording | None, tuple[str, ...], Path]":
    """Return the recorded run, the command, and the folder it works in. Raises ``GaplessError``."""
    from gapless.commands.trying import find_subject

    return find_subject(arguments)
