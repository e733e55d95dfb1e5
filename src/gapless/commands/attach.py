"""Look at a training that was not started with gapless, from outside, without stopping it.

What the kernel counts of its threads and workers, what NVML tells of its GPUs, and py-spy where it
is installed and allowed, over some seconds: a coarse account of its main thread. It has no step
time, since steps cannot be seen from outside. The last line is the command that gives the exact
account. Linux only; processes of other users need root.

Examples:
  gapless attach 12345
  gapless attach 12345 --seconds 30
  gapless attach $(pgrep -f train.py) --json | jq .attached.main.thread

"""

import argparse

SUMMARY = "look at a running training from outside, for some seconds"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless attach``."""
    from gapless.commands.options import add_forms, budget, positive

    parser.add_argument("pid", metavar="PID", type=positive, help="the process that trains")
    parser.add_argument(
        "--seconds", metavar="S", type=budget, default=10.0, help="how long to look (10)"
    )
    add_forms(parser)


def main(arguments: argparse.Namespace) -> int:
    """Look at the process, and print what is known of it."""
    import sys

    from gapless.commands.options import progress
    from gapless.live.outside.attaching import attach
    from gapless.report.text.console import pen_for
    from gapless.screen.attached_lines import attached_lines
    from gapless.screen.document import attached_json

    with progress() as say:
        attached = attach(arguments.pid, arguments.seconds, say)
    if arguments.json:
        sys.stdout.write(attached_json(attached))
        return 0
    pen = pen_for(sys.stdout, arguments.width)
    pen.write(attached_lines(attached, pen))
    return 0
