"""Run a training until its first windows are recorded, stop it, and print where the time went.

The answer comes within the first minute; where steps take longer than four seconds, after about
fifteen of them (at most a quarter of an hour; it says so). Where nothing steps, it ends a minute
after PyTorch was loaded, with what it saw. The training is ended in the middle: with SIGTERM, and
after ten seconds with SIGKILL; do not check a command that must not be ended like this.

Exit code: 0, or the command's own if it failed before; 2 if nothing was seen.

Examples:
  gapless check python train.py
  gapless check --seconds 2000 python train.py    if a step takes longer than a minute
  gapless check torchrun --nproc-per-node 8 train.py

"""

import argparse

SUMMARY = "run a training's first minute, and print where its time goes"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gapless check``."""
    from gapless.commands.options import positive
    from gapless.commands.recording import add_recording

    parser.add_argument(
        "--seconds",
        metavar="S",
        type=positive,
        help="to wait for a first step, and then for a window (60; for long steps up to 900)",
    )
    add_recording(parser)


def main(arguments: argparse.Namespace) -> int:
    """Check the command and return the exit code."""
    from gapless.commands.recording import command_of, record, speak
    from gapless.launch.environment import RecorderSettings
    from gapless.launch.run_spec import RunSpec

    settings = RecorderSettings(check=True, window_steps=arguments.window_steps)
    run_spec = RunSpec(
        command_of(arguments),
        arguments.out,
        settings,
        arguments.seconds,
        report_progress=lambda sentence: speak(sentence, arguments),
    )
    return record(run_spec, arguments)
