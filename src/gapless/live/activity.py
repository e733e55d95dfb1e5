"""What a thread does, seen from outside: ``/proc`` tells how long it ran, or was ready to."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

PROC: Final = Path("/proc")
TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_WORKS: Final = 0.5  # share of the time on a processor from which a thread is said to work
_SHORT_OF_PROCESSORS: Final = 0.2  # likewise, that it was ready and waited for one
_WAITS: Final = (  # how names of kernel functions begin in which a thread waits: for what
    (("futex", "do_futex"), "a lock, or another thread"),
    (("pipe_", "anon_pipe"), "a pipe"),
    (("unix_", "sk_wait", "wait_woken", "inet_", "tcp_", "__skb"), "a socket"),
    (("hrtimer_nanosleep", "do_nanosleep", "common_nsleep"), "a sleep to end"),
    (("do_wait", "do_sys_wait", "kernel_wait"), "a process to end"),
    (("do_poll", "poll_", "do_select", "ep_poll", "do_epoll"), "a message"),
    (("io_schedule", "folio_wait", "wait_on_page", "blkdev", "ext4_", "xfs_", "btrfs"), "a disk"),
    (("nfs", "rpc_", "fuse_", "ceph", "lustre"), "a file system"),
)


class ThreadClock(NamedTuple):
    """What the kernel has counted of a thread."""

    state: str  # R, S, D, T, Z
    ran_ns: int
    ready_ns: int | None  # that it waited for a processor; None: this kernel does not tell
    waits_in: str | None  # the kernel's function in which it waits


class Activity(Struct, frozen=True):
    """What a thread did between two looks; shares of the time between them."""

    state: str
    on_processor: float
    ready: float | None
    waits_in: str | None

    def describe(self) -> str:
        """Say in words what it does."""
        if self.state in "TtZX":
            return "stopped" if self.state in "Tt" else "ended"
        queue = self.ready or 0.0
        if queue >= _SHORT_OF_PROCESSORS:
            return f"waits for a processor {queue:.0%} of the time".replace("%", " %")
        if self.on_processor >= _WORKS:
            return "works"
        if self.state == "D":
            return "waits for a disk"
        awaited = describe_wait(self.waits_in)
        if self.on_processor >= 1 - _WORKS - 0.4:
            share = f"{self.on_processor:.0%}".replace("%", " %")
            return f"works {share} of the time, else waits" + (f" for {awaited}" if awaited else "")
        return f"waits for {awaited}" if awaited else "waits"


def describe_wait(waits_in: str | None) -> str | None:
    """Return for what a thread waits in a function of the kernel's; ``None``: not known."""
    for prefixes, awaited in _WAITS:
        if waits_in is not None and waits_in.startswith(prefixes):
            return awaited
    return None


def read_clock(pid: int, thread: int | None = None, proc: Path = PROC) -> ThreadClock | None:
    """Return the clock of a thread, of the first one of a process; ``None`` if it is gone."""
    folder = proc / str(pid) / "task" / str(thread or pid)
    try:
        text = (folder / "stat").read_bytes()
        words = text[text.rindex(b")") + 2 :].split()
        state, ran_ns = words[0].decode(), (int(words[11]) + int(words[12])) * TICK_NS
    except (OSError, ValueError, IndexError):
        return None
    ready_ns = None
    with suppress(OSError, ValueError, IndexError):
        counts = (folder / "schedstat").read_bytes().split()
        ran_ns, ready_ns = int(counts[0]), int(counts[1])  # to the ns, not in ticks
    waits_in = None
    with suppress(OSError, UnicodeDecodeError):
        name = (folder / "wchan").read_text(encoding="ascii").strip()
        waits_in = name if name not in {"", "0"} else None
    return ThreadClock(state, ran_ns, ready_ns, waits_in)


_ENDED_ACTIVITY: Final = Activity("X", 0.0, None, None)


class ActivityMeter(Struct):
    """Threads that are looked at again and again."""

    proc: Path = PROC
    _clocks: dict[tuple[int, int], tuple[int, ThreadClock]] = field(
        default_factory=dict[tuple[int, int], tuple[int, ThreadClock]]
    )

    def look(self, pid: int, now_ns: int, thread: int | None = None) -> Activity | None:
        """Return what a thread did since the last look, or that it is gone; ``None`` at first."""
        key, clock = (pid, thread or pid), read_clock(pid, thread, self.proc)
        if clock is None:
            self._clocks.pop(key, None)
            return _ENDED_ACTIVITY
        before = self._clocks.get(key)
        self._clocks[key] = (now_ns, clock)
        return None if before is None else activity_between(before, (now_ns, clock))


def activity_between(
    before: tuple[int, ThreadClock], after: tuple[int, ThreadClock]
) -> Activity | None:
    """Return what a thread did between two looks; ``None`` where no time passed."""
    (start_ns, first), (end_ns, last) = before, after
    if end_ns <= start_ns:
        return None
    wall_ns = end_ns - start_ns
    ready = None
    if first.ready_ns is not None and last.ready_ns is not None:
        ready = min(1.0, max(0, last.ready_ns - first.ready_ns) / wall_ns)
    on_processor = min(1.0, max(0, last.ran_ns - first.ran_ns) / wall_ns)
    return Activity(last.state, on_processor, ready, last.waits_in)
