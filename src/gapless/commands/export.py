"""Export the model of a training for use elsewhere, check it, and measure it against the model.

The command is started again in its own interpreter, and taken over where its model has evaluated
some batches. There the model is exported with these inputs as its example; dimensions that varied
between batches, and the batch, are free in what is written. Each file is read again, its outputs
are compared with the model's own, and it is timed in turns with the model itself and with the
compiled one, at batch sizes of 1, 8 and that of the run. Then the process ends. What the command
wrote below its folder is thrown away, as in a trial; the files are written into --out alone.

Where a format refuses the model, the line of the source is shown, what it does, and what helps.

Weights are those of that moment. --at saved lets the command go on to its end and takes those that
it saved last; --weights takes those of a checkpoint.

RUN is a recorded run (its id, the beginning of it, its folder, or "last"). With a command after
"--" that command is started. Ctrl-C ends it; nothing is written then.

Examples:
  gapless export --to onnx --out served     the model of the last run
  gapless export --to torch-export aoti --weights best.pt --out served
  gapless export --to onnx --out served -- python evaluate.py
  gapless export --to onnx --json --out served | jq '.export.ways[].parity'

"""

import argparse
import sys
from pathlib import Path

COMMAND_AFTER = "--"  # what follows is not an option of ours (cli)
SUMMARY = "export the model for use elsewhere, checked and measured"
_INTERRUPTED = 130  # Ctrl-C, as the shell reports it
_SECONDS = 30.0
_STEPS = 50
_FORMATS = ("torch-export", "onnx", "aoti", "tensorrt")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless export``."""
    from gapless.commands.options import add_takeover, positive

    parser.usage = "gapless export [RUN] --to FORMAT ... --out DIR [options] [-- COMMAND ...]"
    parser.allow_abbrev = False  # --s may be an option of the command's
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder or id of a run (last)")
    parser.add_argument(
        "--to", metavar="FORMAT", nargs="+", choices=_FORMATS, required=True,
        help=f"formats: {', '.join(_FORMATS)}",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="a new folder for the files"
    )
    parser.add_argument(
        "--at", choices=("evaluation", "saved"), default="evaluation",
        help="weights of the first evaluation, or of the last save: it trains to its end",
    )  # fmt: skip
    parser.add_argument(
        "--weights", metavar="FILE", type=Path, help="a checkpoint whose weights are exported"
    )
    parser.add_argument(
        "--model", metavar="CLASS", help="the class of the model, if it is not the one that trains"
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=positive,
        default=_STEPS,
        help=f"forwards of training to wait for an evaluation ({_STEPS})",
    )
    add_takeover(parser, _SECONDS, "all else")


def main(arguments: argparse.Namespace) -> int:
    """Export the model of a command, and print what came of it."""
    from gapless.commands.options import progress, tell
    from gapless.commands.trying import ask_permission, find_subject
    from gapless.errors import UsageError
    from gapless.export.catching import ExportPlan, check_place
    from gapless.export.measuring import ExportTask, export_model
    from gapless.report.documents.measurements import export_json
    from gapless.report.model_export import export_lines
    from gapless.report.text.console import pen_for

    check_place(arguments.out)
    if arguments.weights is not None and not arguments.weights.is_file():
        raise UsageError(f"--weights: there is no file {arguments.weights}")
    recording, command, folder = find_subject(arguments)
    plan = ExportPlan(
        command=command,
        folder=folder,
        has_private_view=ask_permission(arguments, recording, folder),
        formats=tuple(dict.fromkeys(arguments.to)),
        out=arguments.out,
        moment=arguments.at,
        steps=arguments.steps,
        seconds=arguments.seconds,
        model=arguments.model,
        weights=arguments.weights,
    )
    run = None if recording is None else recording.manifest.id
    with progress() as say:
        try:
            export = export_model(ExportTask(plan, run), say)
        except KeyboardInterrupt:
            say("")
            tell("interrupted before anything was exported")
            return _INTERRUPTED
    if arguments.json:
        sys.stdout.write(export_json(export))
    else:
        pen = pen_for(sys.stdout, arguments.width)
        pen.write(export_lines(export, pen))
    if not export.is_complete:
        return _INTERRUPTED
    return int(any(not way.files for way in export.ways if way.name in plan.formats))
