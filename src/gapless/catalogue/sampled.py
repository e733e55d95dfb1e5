"""What sampled stacks show of the training thread's own code: where it is, and what it does."""

from math import sqrt
from typing import Final

from gapless.catalogue import windowed
from gapless.catalogue.choosing import named
from gapless.model.edit import Where
from gapless.model.host_code import HostCode
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import Site

_EXPLAINED: Final = 0.5  # of the time lost: so much of it was sampled in one function
_ERRORS: Final = 2.0  # standard errors of a share: nineteen of twenty lie within
_OPERATORS: Final = ("aten::", "autograd::engine")
_DOES: Final = {  # by what was sampled
    "python": "Python in {place} takes",
    "sleep": "A sleep in {place} takes",
    "file": "Reading or writing files in {place} takes",
    "socket": "Waiting for a socket in {place} takes",
    "pipe": "Waiting for another process through a pipe in {place} takes",
    "process": "Waiting for another process in {place} takes",
}
_INSTEAD: Final = {
    "python": (
        "do it in the loader's workers, do it less often, or write it as operations on whole "
        "tensors; torch.compile helps where it is part of the model"
    ),
    "sleep": "leave it out; what it waits for can be waited for in a thread, beside the step",
    "file": (
        "keep the file open and write seldom, in one piece; flush and fsync only where a crash "
        "would cost something; read beforehand, or in the loader's workers"
    ),
    "socket": "ask ahead, in a thread or in the loader's workers, so that the answer lies ready",
    "pipe": "ask ahead, so that the answer lies ready",
    "process": "start it and go on; look for its end at a later step",
}


def everything_ns(seen: Seen) -> float:
    """Give what was sampled of the thread's own code, in ns of a step."""
    recorded = seen.study.recorded
    every = () if recorded is None else recorded.host_code
    return sum(one.share for one in every) * (seen.step_ns or 0)


def largest(seen: Seen) -> HostCode | None:
    """Give the function of the user's in which most was sampled, if any is known."""
    recorded = seen.study.recorded
    every = () if recorded is None else recorded.host_code
    top = max(every, key=lambda one: one.share * one.inside, default=None)
    return None if top is None or top.function is None or top.kind not in _DOES else top


def explaining(seen: Seen, lost: float) -> HostCode | None:
    """Give the function in which most of the time that is ``lost`` of a step was sampled."""
    top = largest(seen)
    return None if top is None or ns(seen, top) < _EXPLAINED * lost else top


def ns(seen: Seen, code: HostCode) -> float:
    """Give what was sampled in a function, in ns of a step."""
    return code.share * code.inside * (seen.step_ns or 0)


def held_ns(seen: Seen, code: HostCode, beside: Interval) -> Interval | None:
    """Give how long a step stands in a function, with the samples' error; ``None``: unknown.

    Operators that the function itself calls stand in its lines, too: of Python they are taken off,
    as stacks of a window show them; ``beside``: at most, where there are none, or more than could
    stand there: then others of its lines call them.
    """
    step = seen.step_ns
    if not step or not code.looks:
        return None
    called, share = beside, share_of(code.stood, code.looks)
    if code.kind != "python":
        called = Interval(0.0, 0.0, 0.0)
    elif seen.study.sites:
        ns = step * _operators_ns(seen, code) / windowed.looped_ns(seen)
        called = Interval(ns, ns, ns) if ns <= share.high * step else beside
    low, mid, high = share.low * step, share.mid * step, share.high * step
    mid = max(0.0, mid - called.mid)
    return Interval(min(mid, max(0.0, low - called.high)), mid, max(mid, high - called.low))


def share_of(stood: float, looks: int) -> Interval:
    """Give a share of so many looks, of all looks that could have been (Wilson's).

    Few looks leave much open, and those that all stood there no less.
    """
    share, more = min(1.0, stood), _ERRORS**2 / looks
    centre = (share + more / 2) / (1 + more)
    error = _ERRORS * sqrt(share * (1 - share) / looks + (more / 2 / _ERRORS) ** 2) / (1 + more)
    return Interval(max(0.0, min(share, centre - error)), share, max(share, centre + error))


def _operators_ns(seen: Seen, code: HostCode) -> int:
    """Sum the operators that a function calls, as stacks of a window show; nested ones twice."""
    mine = (one for one in seen.study.sites if is_of(one, code))
    return sum(one.ns for one in mine if one.name.startswith(_OPERATORS))


def is_of(site: Site, code: HostCode) -> bool:
    """Tell whether what a window's stacks show of a function is of the one that was sampled."""
    return is_in(site.file, site.function, code)


def is_in(file: str | None, function: str, code: HostCode) -> bool:
    """Tell whether a function of a window's stacks is the one that was sampled."""
    names = [(one or "").replace("\\", "/").rpartition("/")[2] for one in (file, code.file)]
    same = (code.function or "").rpartition(".")[2]
    return names[0] == names[1] and function.rpartition(".")[2] == same


def where(code: HostCode | None) -> Where | None:
    """Give its line."""
    if code is None or code.file is None or code.line is None:
        return None
    return Where(code.file, code.line, code.function)


def words(code: HostCode | None) -> str:
    """Begin a sentence of what takes time, up to how much."""
    line = where(code)
    if code is None or line is None:
        return "Python of the training thread, beside what calling operators takes, holds up"
    script = code.function == "<module>"
    place = f"{'the script itself' if script else f'`{code.function}`'} ({named(line)})"
    if code.library is not None and code.kind == "python":
        return f"{code.library}, called in {place}, takes"
    return _DOES[code.kind].format(place=place)


def instead(code: HostCode | None) -> str:
    """Say what to do about it by hand."""
    return _INSTEAD["python" if code is None else code.kind]
