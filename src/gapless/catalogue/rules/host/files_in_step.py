"""Files that the training thread opens, writes, flushes and reads in each step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import samples, windows
from gapless.catalogue.queries.files import LEAVES, MAX_FILE_SHARE, find_caller, measure_file_calls
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

# System calls take as long under a Python profiler as without, while the step around them takes
# longer: their share of a step without profiler is as shown, or more. Disk latency varies.
_TRUE_SHARE: Final = Estimate(0.6, 1.0, 1.3)
_MIN_STEP_SHARE: Final = 0.01  # of the step
_MAX_NAMES: Final = 3  # calls
_READ_CALLS: Final = frozenset({"open", "close", "read", "readline", "readlines", "readinto"})
_READ_REMEDY: Final = f"read it once before the loop{samples.OR_IN_WORKERS}"
_WRITE_REMEDY: Final = (
    "gather what is to be written and write it every n-th step, at once (writerows, one "
    "write), to a file that stays open, without flush and fsync; or write less"
)


@rule(
    "G215",
    "files-in-step",
    figures="""
    file_site(name, ms, calls) = Site(f"{FILES}{name}", "train.py", 54, "train", round(ms * STEPS *
      MS), round(calls * STEPS))
    # A log that is flushed to the disk after each line
    > Writing to files (fsync 30×, flush 30×, write 30× a step) holds up 20.9 ms of each 40.0 ms
      step.
    cpu()
    busy.math 18, idle.host.unframed 21, idle.host.python 1
    file_site("fsync", 20, calls=30), file_site("flush", 0.5, calls=30)
    file_site("write", 0.5, calls=30)
    source_line("train.py", 40, "train", calls=0, host=40, total=40)
    # A sample is read from a file in the loop
    > Opening and reading files (open 64×, read 64×, close 64× a step) holds up 14.8 ms of each 40.0
      ms step.
    cpu()
    busy.math 20, idle.host.python 20
    file_site("open", 8, calls=64), file_site("read", 6, calls=64)
    file_site("close", 1, calls=64)
    source_line("train.py", 40, "train", calls=0, host=40, total=40)
    # A line of text in each step, kept in memory until there are 8 kB
    cpu()
    busy.math 20, idle.host.python 10
    file_site("write", 0.02, calls=1)
    source_line("train.py", 40, "train", calls=0, host=30, total=30)
    # A socket that is read and written as a file
    cpu()
    busy.math 20, idle.host.python 20
    file_site("readline", 20, calls=1)
    source_line("train.py", 40, "train", calls=0, host=40, total=40)
    HostCode("socket", 0.5, 1.0, "train.py", 40, "train", None, 0.5, 100)
    # The device is busy meanwhile
    gpu()
    busy.tc_math 40
    file_site("fsync", 20, calls=1)
    source_line("train.py", 40, "train", calls=0, host=40, total=40)
    """,
)
def files_in_step(evidence: Evidence) -> Detection | None:
    """Recognise that the training thread opens, writes, flushes or reads files in each step.

    ## Why it costs time
    Python buffers what is written, and passes some kilobytes at a time to the system, which writes
    them to the disk later. Flushing after each line turns each into a system call; ``os.fsync``
    waits milliseconds until the disk has the data; opening and closing a file for each line asks
    the file system each time, possibly over a network. Rows that are written one by one are
    formatted one by one. The next launches wait for all of it.

    ## How it is measured
    By calls of ``open``, ``print``, ``os.fsync``, of files and of ``csv`` in the window with
    stacks, outside loaders, evaluations, checkpoints and loggers, which have rules of their own,
    minus a microsecond each for recording them. A function that was sampled waiting for a socket or
    a process is left out: Python wraps these as files. The cost is at most the time for which the
    device, or without one the training, waits for Python.
    """
    step_ns, file_use = evidence.step_ns, measure_file_calls(evidence)
    if not step_ns or file_use is None or file_use.ns < _MIN_STEP_SHARE * step_ns:
        return None
    listing = ", ".join(
        f"{name} {windows.format_count(count)}×"
        for name, count in tuple(file_use.calls.items())[:_MAX_NAMES]
    )
    only_reads = set(file_use.calls) <= _READ_CALLS
    subject = "Opening and reading files" if only_reads else "Writing to files"
    share = file_use.ns / evidence.per_step(*LEAVES)
    low, mid, high = (
        1 - min(MAX_FILE_SHARE, factor * share)
        for factor in (_TRUE_SHARE.high, _TRUE_SHARE.mid, _TRUE_SHARE.low)
    )
    return files_in_step.detection(
        f"{subject} ({listing} a step) holds up {windows.format_step_part(evidence, file_use.ns)}.",
        HostChange(LEAVES, Estimate(low, mid, high)),
        location=find_caller(evidence, next(iter(file_use.calls))),
        measures=(Measure("calls of files, a step", file_use.ns, "ns"),),
        no_remedy=samples.offer_workers(evidence, _READ_REMEDY if only_reads else _WRITE_REMEDY),
    )
