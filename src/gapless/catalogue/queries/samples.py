"""What sampled stacks show of the training thread's own code: where it is and what it does."""

from collections.abc import Callable
from math import hypot, sqrt
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import windows
from gapless.model.change import HostChange
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine, HostCode
from gapless.model.rhythm import Sighting
from gapless.model.study import Site

_MIN_STEPS: Final = 20  # of a run, for a single one of them to stand alone
_MIN_EXPLAINED_SHARE: Final = 0.5  # of the time lost, sampled in one function
_STANDARD_ERRORS: Final = 2.0  # of a share: 95 % lie within
# Of a line's time to that of the rest, between starts: what is left of the differences between
# samples and measured gains of 20 planted faults, without the errors of both.
_START_SPREAD: Final = 0.12
UNSPLIT: Final = "step"  # what no window splits
UNRECORDED: Final = "idle.unknown"  # plain steps beyond what windows explain
_MIN_UNRECORDED_SHARE: Final = 0.5  # of a step: no window shows such steps
_THREAD_LEAVES: Final = ("idle.host.", "busy.")
HOST_LEAVES: Final = ("idle.host.", "idle.launch.")  # of a device: it waits for the thread
_MAX_REMOVED_SHARE: Final = 0.95  # of the thread's time, at most
SAMPLED_IN_FUNCTION: Final = "sampled in that function, of the thread"  # names of measures
SAMPLED_AT_LINE: Final = "sampled at the line, of the thread"
IN_BACKWARD: Final = "of the calls of the backward pass"
_OPERATORS: Final = ("aten::", "autograd::engine")
_SENTENCES: Final = {  # by kind of sampled code
    "python": "Python in {place} takes",
    "sleep": "A sleep in {place} takes",
    "file": "Reading or writing files in {place} takes",
    "socket": "Waiting for a socket in {place} takes",
    "pipe": "Waiting for another process through a pipe in {place} takes",
    "process": "Waiting for another process in {place} takes",
    "lock": "Waiting for another thread in {place} takes",
}
OR_IN_WORKERS: Final = "{or in the loader's workers}"  # of a remedy: said where a loader is
_REMEDIES: Final = {
    "python": (
        f"do it less often{OR_IN_WORKERS}, or write it as operations on whole tensors; "
        "torch.compile helps where it is part of the model"
    ),
    "library": (
        f"do it once beforehand, or less often{OR_IN_WORKERS}; what works on the model's outputs "
        "can be written as operations on tensors"
    ),
    "sleep": "leave it out; what it waits for can be waited for in a thread, beside the step",
    "file": (
        "keep the file open and write seldom, in one piece; flush and fsync only where a crash "
        f"would cost something; read beforehand{OR_IN_WORKERS}"
    ),
    "socket": f"ask ahead, in a thread{OR_IN_WORKERS}, so that the answer lies ready",
    "pipe": "ask ahead, so that the answer lies ready",
    "process": "start it and go on; look for its end at a later step",
    "lock": "what that thread does takes the time: do it faster, in several threads or processes",
}


def sum_sampled_ns(evidence: Evidence) -> float:
    """Return the sampled time of the thread's own code, in ns of a step."""
    codes = evidence.host_code
    return sum(code.share for code in codes) * (evidence.step_ns or 0)


def find_top_code(evidence: Evidence) -> HostCode | None:
    """Return the user's function in which most was sampled, if any is known."""
    codes = (
        code
        for code in evidence.host_code
        if not is_in_single_step(evidence, code.share * code.inside)
    )
    top = max(codes, key=lambda code: code.share * code.inside, default=None)
    return None if top is None or top.function is None or top.kind not in _SENTENCES else top


def find_explaining_code(evidence: Evidence, lost_ns: float) -> HostCode | None:
    """Return the function in which most of the lost time of a step was sampled."""
    top = find_top_code(evidence)
    return None if top is None or code_ns(evidence, top) < _MIN_EXPLAINED_SHARE * lost_ns else top


def code_ns(evidence: Evidence, code: HostCode) -> float:
    """Return the sampled time in a function, in ns of a step."""
    return code.share * code.inside * (evidence.step_ns or 0)


def estimate_held_ns(evidence: Evidence, code: HostCode, direct_ns: Estimate) -> Estimate | None:
    """Return how long a step spends in a function, with the sampling error; ``None``: unknown.

    Operators that the function calls directly are sampled in its lines, too: for Python they are
    subtracted, as stacks of a window show them. If there are none, or more than could be there
    (other lines call them), ``direct_ns``, an upper bound, is subtracted instead.
    """
    step_ns = evidence.step_ns
    if not step_ns or not code.looks:
        return None
    calls_ns, share = direct_ns, estimate_share(_held_share(evidence, code), code.looks)
    if code.kind != "python":
        calls_ns = Estimate(0.0, 0.0, 0.0)
    elif evidence.study.sites:
        operators_ns = step_ns * _operators_ns(evidence, code) / windows.loop_window_ns(evidence)
        calls_ns = (
            Estimate(operators_ns, operators_ns, operators_ns)
            if operators_ns <= share.high * step_ns
            else direct_ns
        )
    low, mid, high = share.low * step_ns, share.mid * step_ns, share.high * step_ns
    mid = max(0.0, mid - calls_ns.mid)
    return Estimate(min(mid, max(0.0, low - calls_ns.high)), mid, max(mid, high - calls_ns.low))


def _held_share(evidence: Evidence, code: HostCode) -> float:
    """Return how much of the time the threads stood in a function for what it does there.

    A wait takes no more than that: what else is sampled at the same line remains without it.
    """
    if code.kind == "python":
        return code.stood
    others_share = sum(
        other.share * other.inside
        for other in evidence.host_code
        if (other.file, other.line) == (code.file, code.line) and other != code
    )
    return max(code.share * code.inside, code.stood - others_share)


def estimate_share(hit_share: float, looks: int) -> Estimate:
    """Return a share with its Wilson score interval, from so many samples, and of any other start.

    Few samples leave much open, even if all of them agree. Another start of a script has its memory
    elsewhere and other neighbours: there the same line takes another share.
    """
    share, spread = min(1.0, hit_share), _STANDARD_ERRORS**2 / looks
    centre = (share + spread / 2) / (1 + spread)
    error = (
        _STANDARD_ERRORS
        * sqrt(share * (1 - share) / looks + (spread / 2 / _STANDARD_ERRORS) ** 2)
        / (1 + spread)
    )
    error = hypot(error, _STANDARD_ERRORS * _START_SPREAD * share * (1 - share))
    return Estimate(max(0.0, min(share, centre - error)), share, max(share, centre + error))


def estimate_call_share(evidence: Evidence, call: CallLine | None) -> Estimate:
    """Return the share of the thread's time in calls of a line; 0 where none was sampled."""
    looks = sum(line.count for line in evidence.recorded.lines if line.thread == "training")
    if call is None or not looks:
        return Estimate(0.0, 0.0, 0.0)
    return estimate_share(call.share, looks)


def _operators_ns(evidence: Evidence, code: HostCode) -> int:
    """Sum the operators that a function calls, as stacks of a window show (nested ones twice)."""
    sites = (site for site in evidence.study.sites if is_site_of(site, code))
    return sum(site.ns for site in sites if site.name.startswith(_OPERATORS))


def is_site_of(site: Site, code: HostCode) -> bool:
    """Return whether a site in a window's stacks belongs to the sampled function."""
    return is_function_of(site.file, site.function, code)


def is_function_of(file: str | None, function: str, code: HostCode | CallLine | Location) -> bool:
    """Return whether a function in a window's stacks is the sampled one."""
    names = [(path or "").replace("\\", "/").rpartition("/")[2] for path in (file, code.file)]
    function_name = (code.function or "").rpartition(".")[2]
    return names[0] == names[1] and function.rpartition(".")[2] == function_name


def find_called_line(evidence: Evidence, location: Location, callee: str) -> Location:
    """Return the line of a function at which a call was sampled most often; else where it begins.

    Stacks of windows name a function by its first line, or where it was when the window began.
    """
    name = callee.rpartition(".")[2]
    top = find_call(evidence, location, lambda call: call.callee.rpartition(".")[2] == name)
    return location if top is None else replace(location, line=top.line)


def find_call(
    evidence: Evidence, location: Location, is_meant: Callable[[CallLine], bool]
) -> CallLine | None:
    """Return the call of a function that was sampled most, among those that are meant."""
    calls = (
        call
        for call in evidence.call_lines
        if is_function_of(location.file, location.function or "", call) and is_meant(call)
    )
    return max(calls, key=lambda call: call.share, default=None)


def find_sampled_call(evidence: Evidence, callee: str) -> Location | None:
    """Return the line at which calls of a library's function were sampled most; ``None``: none."""
    calls = [call for call in evidence.call_lines if call.callee.rpartition(".")[2] == callee]
    top = max(calls, key=lambda call: call.share, default=None)
    return None if top is None else Location(top.file, top.line, top.function)


def find_single_step(evidence: Evidence) -> Sighting | None:
    """Return the one of many steps that is longer than those in windows; ``None``: not one."""
    account = None if evidence.is_trace_only else evidence.step_account
    steps = evidence.run_steps
    if account is None or account.unlike is None or steps is None:
        return None
    if steps.noted < _MIN_STEPS or account.unlike.mean_ns < (evidence.step_ns or 0):
        return None
    count = round(account.unlike.steps * steps.noted)
    return Sighting(1, account.unlike.mean_ns, None, at_start=False) if count == 1 else None


def is_in_single_step(evidence: Evidence, share: float) -> bool:
    """Return whether what takes a share of the time must have been in a single long step.

    All others together are less than half as long. Whether its like comes again is not known.
    """
    if find_single_step(evidence) is None or evidence.step_account is None:
        return False
    unlike = evidence.step_account.unlike
    return unlike is not None and 2 * (1 - unlike.time) < share


def code_location(code: HostCode | None) -> Location | None:
    """Return the location of sampled code, if it is known."""
    if code is None or code.file is None or code.line is None:
        return None
    return Location(code.file, code.line, code.function)


def begin_sentence(code: HostCode | None) -> str:
    """Return the beginning of a sentence on what takes time, up to the amount."""
    location = code_location(code)
    if code is None or location is None:
        return "Python of the training thread, beside what calling operators takes, holds up"
    is_script = code.function == "<module>"
    subject = (
        f"{'the script itself' if is_script else f'`{code.function}`'} ({name_line(location)})"
    )
    if code.library is not None and code.kind == "python":
        return f"{code.library}, called in {subject}, takes"
    return _SENTENCES[code.kind].format(place=subject)


def suggest_remedy(evidence: Evidence, code: HostCode | None) -> str:
    """Return what to do about sampled code by hand: nothing of workers where no loader is."""
    kind = "python" if code is None else code.kind
    is_library = kind == "python" and code is not None and code.library is not None
    return offer_workers(evidence, _REMEDIES["library" if is_library else kind])


def offer_workers(evidence: Evidence, remedy: str) -> str:
    """Return what to do by hand, with a loader's workers only where a loader is."""
    words = f" {OR_IN_WORKERS[1:-1]}" if evidence.facts.loaders else ""
    return remedy.replace(OR_IN_WORKERS, words)


def remove_share(
    evidence: Evidence, lost_share: Estimate, leaves: tuple[str, ...] | None = None
) -> HostChange:
    """Return what remains of some leaves if such shares of a step are removed.

    Without leaves: of the thread's time, or of the waits of a device for it.
    """
    if leaves is None:
        leaves = HOST_LEAVES if evidence.on_device else thread_leaves(evidence)
    thread_share = evidence.share(*leaves)
    shares = (lost_share.high, lost_share.mid, lost_share.low)
    return HostChange(
        leaves,
        Estimate(
            *(
                1 - min(_MAX_REMOVED_SHARE, share / thread_share) if thread_share else 1.0
                for share in shares
            )
        ),
        sampled=True,
    )


def thread_leaves(evidence: Evidence) -> tuple[str, ...]:
    """Return the leaves of all that the training thread does, without a device.

    What no window splits is one where there is such: no replay knows it.
    """
    return (*_THREAD_LEAVES, UNSPLIT) if evidence.share(UNSPLIT) else _THREAD_LEAVES


def removable_leaves(evidence: Evidence) -> tuple[str, ...]:
    """Return the leaves that go with work of the training thread: a device's own work stays."""
    if not evidence.on_device:
        return thread_leaves(evidence)
    unsplit = (UNSPLIT,) if evidence.share(UNSPLIT) else ()
    unrecorded = evidence.share(UNRECORDED) >= _MIN_UNRECORDED_SHARE
    return (*HOST_LEAVES, *unsplit, *((UNRECORDED,) if unrecorded else ()))
