"""A fetch divided among its stages, each charged with what no stage within it took.

A function of a library that belongs to a stage is replaced by one that does nothing more than call
it, unless its thread is in a fetch that is looked at in detail. What people could notice is as
before: name, signature, pickle, tracebacks (our frame is taken out), the line that a warning names,
source and globals (which TorchScript compiles), and that a C function held by a class is no method.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic_ns, thread_time_ns
from types import FunctionType
from typing import Any, Callable, Optional

from ...wire import STAGES
from ..process_state import keep
from ..tracebacks import PASSED_OVER

READ, DECODE, AUGMENT, TOKENISE, COLLATE, OTHER = range(len(STAGES))

INVISIBLE = PASSED_OVER

Observe = Optional[Callable[[Any, Any], None]]


class _DetailedFetches:
    """The fetches that are looked at in detail now."""

    def __init__(self) -> None:
        self.watches: dict[int, Stopwatch] = {}  # by thread

    def fork(self) -> None:
        """Time nothing in the child of a fork, whose only thread may be within a fetch."""
        self.watches.clear()


running = keep(_DetailedFetches()).watches  # one and the same: the wrappers know it


class Stopwatch:
    """Wall and processor time of one fetch by stage, in ns; they sum to those of the fetch."""

    __slots__ = ("cpu", "since", "since_cpu", "stage", "switches", "wall")

    def __init__(self) -> None:
        self.stage = OTHER
        self.since = self.since_cpu = self.switches = 0
        self.wall = [0] * len(STAGES)
        self.cpu = [0] * len(STAGES)

    def start(self, now_ns: int, cpu: int) -> None:
        """Begin at this reading of both clocks."""
        self.since, self.since_cpu = now_ns, cpu

    def enter(self, stage: int) -> int:
        """Charge what passed to the stage so far, change to another, and return the one before."""
        cpu = thread_time_ns()
        now_ns = monotonic_ns()
        before = self.stage
        self.wall[before] += now_ns - self.since
        self.cpu[before] += cpu - self.since_cpu
        self.since, self.since_cpu, self.stage = now_ns, cpu, stage
        self.switches += 1
        return before

    def stop(self, now_ns: int, cpu: int) -> None:
        """Charge what is left up to this reading of both clocks."""
        self.wall[self.stage] += now_ns - self.since
        self.cpu[self.stage] += cpu - self.since_cpu
        self.since, self.since_cpu = now_ns, cpu


def time_function(original: Any, stage: int, *, weak: bool = False, observe: Observe = None) -> Any:
    """Return what stands in for a function of a stage.

    ``weak``: within augmentation it is part of that. ``observe`` is called with the arguments: a
    path.
    """
    ignored = 1 << stage | (1 << AUGMENT if weak else 0)
    if not hasattr(type(original), "__get__"):  # a C function: no method of a class that holds it
        return _TimedFunction(original, (ignored, stage, observe))
    outer = _outer(running, get_ident, original, ignored, stage, observe)
    proxy = FunctionType(
        outer.__code__,
        getattr(original, "__globals__", globals()),
        getattr(original, "__name__", "outer"),
        None,
        outer.__closure__,
    )
    return functools.update_wrapper(proxy, original)


def invisible(function: FunctionType) -> FunctionType:
    """Return the function, with frames that ``warnings`` and ``logging`` pass over."""
    function.__code__ = function.__code__.replace(co_filename=INVISIBLE)
    return function


def _outer(  # what it closes over: it must need no globals of ours
    _running: dict[int, Stopwatch],
    _ident: Callable[[], int],
    _original: Any,
    _ignored: int,
    _stage: int,
    _observe: Observe,
) -> FunctionType:
    def outer(*args: Any, **kwargs: Any) -> Any:
        _watch = _running.get(_ident()) if _running else None
        if _watch is None or _ignored >> _watch.stage & 1:
            _before = -1
        else:
            if _observe is not None:
                _observe(args, kwargs)
            _before = _watch.enter(_stage)
        try:
            return _original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        finally:
            if _before >= 0:
                _watch.enter(_before)  # type: ignore[union-attr]

    return invisible(outer)  # type: ignore[arg-type]


class FunctionProxy:
    """What stands in for a C function; like one, it does not become a method of a class."""

    def __init__(self, original: Any) -> None:
        functools.update_wrapper(self, original)  # type: ignore[arg-type]
        self.__self__ = getattr(original, "__self__", None)

    def __getattr__(self, name: str) -> Any:
        """Return what the function has."""
        if name == "__wrapped__":  # not made yet
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        """Look like the function."""
        return repr(self.__wrapped__)

    def __reduce__(self) -> str:
        """Pickle as the function does: by name."""
        return self.__wrapped__.__qualname__


class _TimedFunction(FunctionProxy):
    def __init__(self, original: Any, settings: tuple[int, int, Observe]) -> None:
        super().__init__(original)
        self._how = settings

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch = running.get(get_ident()) if running else None
        before = -1
        if watch is not None:
            ignored, stage, observe = self._how
            if not ignored >> watch.stage & 1:
                if observe is not None:
                    observe(args, kwargs)
                before = watch.enter(stage)
        try:
            return self.__wrapped__(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        finally:
            if before >= 0:
                watch.enter(before)  # type: ignore[union-attr]


invisible(_TimedFunction.__call__)  # type: ignore[arg-type]
