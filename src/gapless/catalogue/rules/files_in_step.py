"""Files that the training thread opens, writes, flushes and reads in each step."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.filing import LEAVES, MOST, caller, filing
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import MS, STEPS, source
from gapless.model.change import Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.host_code import HostCode
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import FILES, Site

# Calls of the system take as long under a profiler of Python as without, and the step around them
# takes longer: their share of a plain step is what it shows, or more. How long a disk takes varies.
_TRUE: Final = Interval(0.6, 1.0, 1.3)
_LEAST: Final = 0.01  # of the step
_NAMED: Final = 3  # calls
_READS: Final = frozenset({"open", "close", "read", "readline", "readlines", "readinto"})
_READ_ONCE: Final = "read it once before the loop, or in the loader's workers"
_WRITE_SELDOM: Final = (
    "gather what is to be written and write it every so many steps, at once (writerows, one "
    "write), to a file that stays open, without flush and fsync; or write less"
)


def _called(name: str, ms: float, calls: float) -> Site:
    return Site(
        f"{FILES}{name}", "train.py", 54, "train", round(ms * STEPS * MS), round(calls * STEPS)
    )


@rule(
    "G215",
    "files-in-step",
    since="0.1",
    figures=[
        Figure(
            "A log that is flushed to the disk after each line",
            "Writing to files (fsync 30×, flush 30×, write 30× a step) holds up 20.9 ms of each "
            "40.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 18, "idle.host.unframed": 21, "idle.host.python": 1},
                _called("fsync", 20, calls=30),
                _called("flush", 0.5, calls=30),
                _called("write", 0.5, calls=30),
                source("train.py", 40, "train", calls=0, host=40, total=40),
            ),
        ),
        Figure(
            "A sample is read from a file in the loop",
            "Opening and reading files (open 64×, read 64×, close 64× a step) holds up 14.8 ms of "
            "each 40.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 20},
                _called("open", 8, calls=64),
                _called("read", 6, calls=64),
                _called("close", 1, calls=64),
                source("train.py", 40, "train", calls=0, host=40, total=40),
            ),
        ),
        Figure(
            "A line of text in each step, kept in memory until there are 8 kB",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 10},
                _called("write", 0.02, calls=1),
                source("train.py", 40, "train", calls=0, host=30, total=30),
            ),
        ),
        Figure(
            "A socket that is read and written as a file",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 20, "idle.host.python": 20},
                _called("readline", 20, calls=1),
                source("train.py", 40, "train", calls=0, host=40, total=40),
                HostCode("socket", 0.5, 1.0, "train.py", 40, "train", None, 0.5, 100),
            ),
        ),
        Figure(
            "A device works meanwhile",
            None,
            stated(
                examples.gpu(),
                {"busy.tc_math": 40},
                _called("fsync", 20, calls=1),
                source("train.py", 40, "train", calls=0, host=40, total=40),
            ),
        ),
    ],
)
def files_in_step(seen: Seen) -> Loss | None:
    """Recognise that the training thread opens, writes, flushes or reads files in each step.

    ## Why it costs time
    Python keeps what is written in memory, and hands some kilobytes at a time to the system, which
    writes them to the disk when it finds time. To flush after each line makes a call of the system
    of each; ``os.fsync`` waits until the disk has it, milliseconds; to open and close a file for
    each line asks the file system each time, over a network for as long as that takes. Rows that
    are written one by one are turned into text one by one. The next launches wait for all of it.

    ## How it is measured
    By calls of ``open``, ``print``, ``os.fsync``, of files and of ``csv`` in the window with
    stacks, outside of loaders, evaluations, checkpoints and loggers, which have rules of their own,
    less a microsecond each that noting them takes. A function that was sampled waiting for a socket
    or a process calls no files: Python wraps these as files. At most it is what the device, or
    without one the training, waits for Python.
    """
    step, known = seen.step_ns, filing(seen)
    if not step or known is None or known.ns < _LEAST * step:
        return None
    mainly = ", ".join(
        f"{name} {windowed.times(count)}×" for name, count in tuple(known.calls.items())[:_NAMED]
    )
    reads = set(known.calls) <= _READS
    doing = "Opening and reading files" if reads else "Writing to files"
    share = known.ns / seen.per_step(*LEAVES)
    low, mid, high = (1 - min(MOST, one * share) for one in (_TRUE.high, _TRUE.mid, _TRUE.low))
    return files_in_step.loss(
        f"{doing} ({mainly} a step) holds up {windowed.of_step(seen, known.ns)}.",
        Hosted(LEAVES, Interval(low, mid, high)),
        where=caller(seen, next(iter(known.calls))),
        evidence=(Measure("calls of files, a step", known.ns, "ns"),),
        no_remedy=_READ_ONCE if reads else _WRITE_SELDOM,
    )
