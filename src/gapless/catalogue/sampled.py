"""What sampled stacks show of the training thread's own code: where it is, and what it does."""

from math import sqrt
from typing import Final

from gapless.catalogue import windowed
from gapless.catalogue.choosing import name_line
from gapless.model.edit import Location
from gapless.model.host_code import HostCode
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence
from gapless.model.study import Site

_MIN_EXPLAINED_SHARE: Final = 0.5  # of the time lost: so much of it was sampled in one function
_STANDARD_ERRORS: Final = 2.0  # standard errors of a share: nineteen of twenty lie within
_OPERATORS: Final = ("aten::", "autograd::engine")
_SENTENCES: Final = {  # by what was sampled
    "python": "Python in {place} takes",
    "sleep": "A sleep in {place} takes",
    "file": "Reading or writing files in {place} takes",
    "socket": "Waiting for a socket in {place} takes",
    "pipe": "Waiting for another process through a pipe in {place} takes",
    "process": "Waiting for another process in {place} takes",
}
_REMEDIES: Final = {
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


def sum_sampled_ns(evidence: Evidence) -> float:
    """Return what was sampled of the thread's own code, in ns of a step."""
    recorded = evidence.study.recorded
    codes = () if recorded is None else recorded.host_code
    return sum(code.share for code in codes) * (evidence.step_ns or 0)


def find_top_code(evidence: Evidence) -> HostCode | None:
    """Return the function of the user's in which most was sampled, if any is known."""
    recorded = evidence.study.recorded
    codes = () if recorded is None else recorded.host_code
    top = max(codes, key=lambda code: code.share * code.inside, default=None)
    return None if top is None or top.function is None or top.kind not in _SENTENCES else top


def find_explaining_code(evidence: Evidence, lost_ns: float) -> HostCode | None:
    """Return the function in which most of the time that is ``lost`` of a step was sampled."""
    top = find_top_code(evidence)
    return None if top is None or code_ns(evidence, top) < _MIN_EXPLAINED_SHARE * lost_ns else top


def code_ns(evidence: Evidence, code: HostCode) -> float:
    """Return what was sampled in a function, in ns of a step."""
    return code.share * code.inside * (evidence.step_ns or 0)


def estimate_held_ns(evidence: Evidence, code: HostCode, direct_ns: Estimate) -> Estimate | None:
    """Return how long a step stands in a function, with the samples' error; ``None``: unknown.

    Operators that the function itself calls stand in its lines, too: of Python they are taken off,
    as stacks of a window show them; ``beside``: at most, where there are none, or more than could
    stand there: then others of its lines call them.
    """
    step_ns = evidence.step_ns
    if not step_ns or not code.looks:
        return None
    calls_ns, share = direct_ns, estimate_share(code.stood, code.looks)
    if code.kind != "python":
        calls_ns = Estimate(0.0, 0.0, 0.0)
    elif evidence.study.sites:
        operators_ns = step_ns * _operators_ns(evidence, code) / windowed.loop_window_ns(evidence)
        calls_ns = Estimate(operators_ns, operators_ns, operators_ns) if operators_ns <= share.high * step_ns else direct_ns
    low, mid, high = share.low * step_ns, share.mid * step_ns, share.high * step_ns
    mid = max(0.0, mid - calls_ns.mid)
    return Estimate(min(mid, max(0.0, low - calls_ns.high)), mid, max(mid, high - calls_ns.low))


def estimate_share(hit_share: float, looks: int) -> Estimate:
    """Return a share of so many looks, of all looks that could have been (Wilson's).

    Few looks leave much open, and those that all stood there no less.
    """
    share, spread = min(1.0, hit_share), _STANDARD_ERRORS**2 / looks
    centre = (share + spread / 2) / (1 + spread)
    error = _STANDARD_ERRORS * sqrt(share * (1 - share) / looks + (spread / 2 / _STANDARD_ERRORS) ** 2) / (1 + spread)
    return Estimate(max(0.0, min(share, centre - error)), share, max(share, centre + error))


def _operators_ns(evidence: Evidence, code: HostCode) -> int:
    """Sum the operators that a function calls, as stacks of a window show; nested ones twice."""
    sites = (site for site in evidence.study.sites if is_site_of(site, code))
    return sum(site.ns for site in sites if site.name.startswith(_OPERATORS))


def is_site_of(site: Site, code: HostCode) -> bool:
    """Return whether what a window's stacks show of a function is of the one that was sampled."""
    return is_function_of(site.file, site.function, code)


def is_function_of(file: str | None, function: str, code: HostCode) -> bool:
    """Return whether a function of a window's stacks is the one that was sampled."""
    names = [(path or "").replace("\\", "/").rpartition("/")[2] for path in (file, code.file)]
    function_name = (code.function or "").rpartition(".")[2]
    return names[0] == names[1] and function.rpartition(".")[2] == function_name


def code_location(code: HostCode | None) -> Location | None:
    """Return its line."""
    if code is None or code.file is None or code.line is None:
        return None
    return Location(code.file, code.line, code.function)


def begin_sentence(code: HostCode | None) -> str:
    """Begin a sentence of what takes time, up to how much."""
    location = code_location(code)
    if code is None or location is None:
        return "Python of the training thread, beside what calling operators takes, holds up"
    is_script = code.function == "<module>"
    subject = f"{'the script itself' if is_script else f'`{code.function}`'} ({name_line(location)})"
    if code.library is not None and code.kind == "python":
        return f"{code.library}, called in {subject}, takes"
    return _SENTENCES[code.kind].format(place=subject)


def suggest_remedy(code: HostCode | None) -> str:
    """Say what to do about it by hand."""
    return _REMEDIES["python" if code is None else code.kind]
