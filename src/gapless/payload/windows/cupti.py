"""Whether CUPTI, by which torch's profiler sees a device, stays attached when a window has closed.

Attached it makes each launch dearer, also with no profiler on, until the process ends (1.1 to 1.5
times the step of a training that its host bounds: benchmarks/after_windows.py). Kineto detaches it
behind a session where the environment says ``TEARDOWN_CUPTI=1``: a thread of its own arms that, and
the next call to CUDA carries it out. Before CUDA 12.6 that breaks CUDA graphs, before torch 2.11
sessions that follow each other soon, so there it stays attached. To attach it again for the next
window takes some 8 ms, instead of one (the same benchmark). Only the C library's environment
is changed, and only while a window is open; ``os.environ`` is not, and what the user has set stays.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from .. import recorder, tracebacks
from ..process_state import keep_fields

_DETACH = "TEARDOWN_CUPTI"
_GRAPHS_BREAK = {_DETACH: "0", "DISABLE_CUPTI_LAZY_REINIT": "1"}  # as torch.profiler sets them
_TASKS = "/proc/self/task"
_BETWEEN_S = 0.0005  # calls
_PATIENCE_NS = 50_000_000
_AT_END_NS = 500_000_000  # on a machine so busy that the other was not enough
# Whether the environment is changed; the ``Detachment`` that is yet to come.
_state = keep_fields(is_ours=False, unsettled=None)


def before_window(torch: Any) -> None:
    """Have the window that is about to open leave nothing behind, where that is safe."""
    if not torch.version.cuda:  # no CUPTI
        return
    if _version(torch.version.cuda) < (12, 6):
        for name, value in _GRAPHS_BREAK.items():
            if name not in os.environ:
                os.putenv(name, value)
    elif _version(torch.__version__) >= (2, 11) and _DETACH not in os.environ and _threads():
        os.putenv(_DETACH, "1")
        _state.is_ours = True


def hand_back() -> None:
    """Leave nothing pending, and the environment as it was: no window is open any more.

    A profiler of the user's then behaves as it would without us; of its sessions that follow each
    other at once all but the first would lose their device's work.
    """
    if _state.unsettled is not None:
        _state.unsettled.settle(_AT_END_NS)
    if _state.is_ours:
        _state.is_ours = False
        if _DETACH not in os.environ:
            os.unsetenv(_DETACH)


class Detachment:
    """Sees to it that CUPTI is detached when a window has stopped; made before that.

    Kineto's thread waits for a call to CUDA, and is gone behind it. Left to the training's own
    calls, a session that begins before them would lose its device's work, and a process that ends
    before them would not end: up to torch 2.11 what the thread waits on is destroyed, which waits
    for the thread. So it counts as pending from the beginning, whatever interrupts the stop.
    """

    def __init__(self) -> None:
        detaches = _state.is_ours or os.environ.get(_DETACH) == "1"
        earlier = _state.unsettled
        self._before = _threads() if earlier is None else earlier._before
        if detaches and self._before:
            _state.unsettled = self

    def settle(self, patience_ns: int = _PATIENCE_NS) -> bool:
        """Make such calls until no new thread is left, but not for longer than so many ns.

        They ask which device is current: nothing is asked of the device itself. Returns whether
        nothing is left attached.
        """
        cuda = sys.modules.get("torch.cuda")
        if _state.unsettled is not self or cuda is None or not cuda.is_initialized():
            return False
        until = recorder.now() + patience_ns
        while self._pending():
            if recorder.now() > until or not _call_cuda(cuda):
                return False
            time.sleep(_BETWEEN_S)
        _state.unsettled = None
        hand_back()
        return True

    def _pending(self) -> bool:
        now = _threads()
        return not now or bool(now - self._before)


def _call_cuda(cuda: Any) -> bool:
    """Make a call to CUDA; return whether it worked: a failed device fails the training, too."""
    try:
        cuda.current_device()
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        return False
    return True


def _threads() -> frozenset[str]:
    """Return the threads of this process; none where that is not known."""
    try:
        return frozenset(os.listdir(_TASKS))
    except OSError as error:
        tracebacks.pass_on(error)
        return frozenset()  # no /proc, or no file descriptor is free


def _version(text: str) -> tuple[int, ...]:
    numbers = (number.partition("+")[0] for number in text.split(".")[:2])
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)
