"""Run a training as it is, record it, and print at its end where the time went.

Everything after the options is the command: a Python script, torchrun, accelerate, a shell
script. It runs unchanged, and gapless ends with its exit code. What is recorded goes into
.gapless/runs; the report is printed on standard error, after all that the command prints.

Examples:
  gapless run python train.py --epochs 90
  gapless run torchrun --nproc-per-node 8 train.py
  gapless run bash train.sh
  gapless run --no-windows python train.py        without torch.profiler: marks and samples alone
  gapless run --early python train.py             a first verdict after a minute
  gapless run --quiet --out /data/runs python train.py
  gapless run --price 2.5 python train.py         what the waiting costs
  gapless run --log-to wandb python train.py      account and findings as metrics there
  gapless run --with tuned.json python train.py   with proven fixes applied (gapless tune)

"""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "run a training as it is, and print where its time went"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless run``."""
    from gapless.commands.options import positive
    from gapless.commands.recording import add_recording

    parser.add_argument("--early", action="store_true", help="a first verdict in one line, early")
    parser.add_argument("--no-windows", action="store_true", help="record without torch.profiler")
    parser.add_argument(
        "--every", metavar="N", type=positive, help="a window every N steps (at doubling distances)"
    )
    parser.add_argument(
        "--with",
        dest="edits",
        metavar="FILE",
        type=Path,
        help="apply fixes to it: tuned.json, or a list of edits",
    )
    parser.add_argument(
        "--gather", metavar="URL", help="copy the run there at its end: s3://bucket/job"
    )
    add_recording(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from gapless.commands.recording import command_of, record, show_early_verdict
    from gapless.launch.environment import RecorderSettings
    from gapless.launch.run_spec import RunSpec

    settings = RecorderSettings(
        windows=not arguments.no_windows,
        window_steps=arguments.window_steps,
        every=arguments.every,
        edits=_load_edits(arguments.edits),
    )
    first_window = show_early_verdict if arguments.early else None
    run_spec = RunSpec(command_of(arguments), arguments.out, settings, on_first_window=first_window)
    return record(run_spec, arguments)


def _load_edits(path: Path | None) -> "tuple[dict[str, Any], ...]":
    if path is None:
        return ()
    from gapless.commands.options import tell
    from gapless.model.edit import edit_to_json
    from gapless.store.run.tunings import read_edits

    edits = read_edits(path)
    if not edits:  # what gapless tune writes where nothing is proven
        tell(f"{path} holds no fix: the command runs as it is")
    return tuple(map(edit_to_json, edits))
