"""What was run, in a few words, and how it ended."""

import signal
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from rich.cells import cell_len

from gapless.model.run import RecordedRun
from gapless.report.text.numbers import span
from gapless.report.text.text import clean, cut_end

_COMMAND_CELLS: Final = 60  # cells of a command that are shown


def life_line(recorded: RecordedRun) -> str:
    """Describe what was run, and how it ended."""
    life = recorded.life
    command = _short_command(life.command)
    ending = life.status
    if life.stopped_by:
        ending = f"ended by gapless {clean(life.stopped_by)}, as asked"
    elif life.exit_code is not None and life.exit_code < 0:
        ending = f"killed by {_signal_name(-life.exit_code)}"
    elif life.exit_code is not None:
        ending += f", exit code {life.exit_code}"
    duration_text = f" after {span(life.wall_ns)}" if life.wall_ns is not None else ""
    return f"{command} · {ending}{duration_text}"


def _short_command(command: Sequence[str]) -> str:
    """Return a command in a few cells: the folders of program and script go first, then its end."""
    full_command = clean(" ".join(command))
    if cell_len(full_command) <= _COMMAND_CELLS:
        return full_command
    script = next(
        (index for index, word in enumerate(command) if index and word.endswith(".py")), 0
    )
    words = (
        PurePath(word).name if index in (0, script) else word for index, word in enumerate(command)
    )
    return cut_end(clean(" ".join(words)), _COMMAND_CELLS)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a signal that this system does not name
        return f"signal {number}"
