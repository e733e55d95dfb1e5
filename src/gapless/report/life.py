"""What was run, in a few words, and how it ended."""

import signal
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from rich.cells import cell_len

from gapless.model.run import Recorded
from gapless.report.numbers import span
from gapless.report.text import clean, cut

_COMMAND: Final = 60  # cells of a command that are shown


def life_line(recorded: Recorded) -> str:
    """Say what was run, and how that ended."""
    life = recorded.life
    command = _in_short(life.command)
    ended = life.status
    if life.stopped_by:
        ended = f"ended by gapless {clean(life.stopped_by)}, as asked"
    elif life.exit_code is not None and life.exit_code < 0:
        ended = f"killed by {_signal(-life.exit_code)}"
    elif life.exit_code is not None:
        ended += f", exit code {life.exit_code}"
    took = f" after {span(life.wall_ns)}" if life.wall_ns is not None else ""
    return f"{command} · {ended}{took}"


def _in_short(command: Sequence[str]) -> str:
    """Give a command in a few cells: the folders of program and script go first, then its end."""
    whole = clean(" ".join(command))
    if cell_len(whole) <= _COMMAND:
        return whole
    script = next((at for at, word in enumerate(command) if at and word.endswith(".py")), 0)
    words = (PurePath(one).name if at in (0, script) else one for at, one in enumerate(command))
    return cut(clean(" ".join(words)), _COMMAND)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one that this system does not name
        return f"signal {number}"
