"""The processes of the machine as a table, sorted as one likes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from gapless.live.view import ProcessView
from gapless.report.text.console import Pen
from gapless.report.text.numbers import size
from gapless.report.text.text import clean, cut_end
from gapless.screen.machine_lines import bytes_rate

_WIDE_CELLS: Final = 110  # from so many columns on there is room for users and queues
_MIN_CPU: Final = 0.005  # of a processor, by which a process is worth a line
_ABSENT: Final = "–"


def _disk_rate(process: ProcessView) -> float:
    return (process.read_per_s or 0.0) + (process.written_per_s or 0.0)


def _gpu_use(process: ProcessView) -> tuple[float, ...]:
    return process.gpu_busy or 0.0, process.gpu_memory or 0


# What processes are sorted by, the largest first, and which are then worth a line.
ORDERS: Final[Mapping[str, Callable[[ProcessView], tuple[float, ...]]]] = {
    "cpu": lambda process: (process.is_training, process.on_processor or 0.0),
    "memory": lambda process: (process.memory,),
    "disk": lambda process: (_disk_rate(process),),
    "gpu": _gpu_use,
}
_FILTERS: Final[Mapping[str, Callable[[ProcessView], bool]]] = {
    "cpu": lambda process: process.is_training or (process.on_processor or 0.0) >= _MIN_CPU,
    "memory": lambda process: process.memory > 0,
    "disk": lambda process: _disk_rate(process) > 0,
    "gpu": lambda process: process.gpu_memory is not None or process.gpu_busy is not None,
}


class _TableColumn(Struct, frozen=True):
    """A column of the table."""

    head: str
    width: int
    cell: Callable[[ProcessView], str]
    order: str | None = None  # that sorts by it
    is_wide: bool = False  # left out on a narrow terminal


_COLUMNS: Final = (
    _TableColumn("pid", 8, lambda process: str(process.pid)),
    _TableColumn("user", 9, lambda process: cut_end(clean(process.user), 8), None, is_wide=True),
    _TableColumn("", 2, lambda process: process.state),
    _TableColumn("cpu", 7, lambda process: _amount(process.on_processor, "{:.2f}".format), "cpu"),
    _TableColumn("ready", 7, lambda process: _amount(process.ready, _percent), None, is_wide=True),
    _TableColumn("memory", 10, lambda process: size(process.memory), "memory"),
    _TableColumn("read/s", 10, lambda process: _amount(process.read_per_s, bytes_rate), "disk"),
    _TableColumn("write/s", 10, lambda process: _amount(process.written_per_s, bytes_rate), "disk"),
)
_GPU_COLUMNS: Final = (
    _TableColumn("gpu", 7, lambda process: _amount(process.gpu_busy, _percent), "gpu"),
    _TableColumn("gpu mem", 10, lambda process: _amount(process.gpu_memory, size), "gpu"),
)


def process_lines(processes: Sequence[ProcessView], pen: Pen, order: str = "cpu") -> Iterator[Text]:
    """Return the table: by processors trainings come first, else the largest use."""
    columns = [column for column in _COLUMNS if not column.is_wide or pen.width >= _WIDE_CELLS]
    if any(map(_FILTERS["gpu"], processes)):
        columns += _GPU_COLUMNS
    head = Text()
    for column in columns:
        style = "bold underline" if column.order == order else "bold"
        head.append(" " * (column.width - len(column.head)))
        head.append(column.head, style)
    yield head.append("  command", "bold")
    sorted_processes = sorted(filter(_FILTERS[order], processes), key=ORDERS[order], reverse=True)
    for process in sorted_processes:
        cells = "".join(f"{column.cell(process):>{column.width}}" for column in columns)
        text = f"{cells}  {_shorten(clean(process.command))}"
        yield Text(cut_end(text, pen.width), "bold" if process.is_training else "")


def _shorten(command: str) -> str:
    """Return a command line without the folders of its program, and of a script that it runs."""
    words = command.split(" ")
    names = [word.rpartition("/")[2] if word.startswith("/") else word for word in words[:2]]
    return " ".join([*names, *words[2:]])


def _amount(value: float | None, form: Callable[[float], str]) -> str:
    return _ABSENT if value is None else form(value)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
