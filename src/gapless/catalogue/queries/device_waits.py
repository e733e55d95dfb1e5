"""How much of a step a device waits for what is done at a line, or works for it."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.queries import step_lines, windows
from gapless.catalogue.queries.lines import training_calls
from gapless.catalogue.queries.ranks import rank_steps
from gapless.catalogue.queries.samples import (
    HOST_LEAVES,
    UNRECORDED,
    UNSPLIT,
    find_call,
    is_function_of,
    removable_leaves,
    remove_share,
)
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.change import Change, Omit
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine
from gapless.model.leaf import DEVICE_WORK
from gapless.model.study import ON_DEVICE, Site

_DATA: Final = "idle.data."
# Copies and numbers that are read have causes of their own.
_COPIES: Final = ("to", "cpu", "cuda", "item", "copy_", "_to_copy", "detach")
# Of torch.nn.functional, between a call of max_pool2d and the like and its operator.
_DISPATCH, _DISPATCHED = ("boolean_dispatch.fn", "max_pool")
_MIN_LINE_SHARE: Final = 0.5  # of the samples outside training code of the function, at one line
_MIN_CALLS_SHARE: Final = 0.9  # of an operator's calls, or time: others belong to the model
_HIDING: Final = ("busy.", "copy.", "comm.", "idle.device.")
_MIN_SHOWN_SHARE: Final = 0.5  # of the line's time, with a device
_MIN_WAITED_SHARE: Final = 0.5  # of such work: it goes at least, where the thread waits for it
_MIN_LAUNCH_SHARE: Final = 0.5  # of a line's time: calling the operators takes so much of it


def exposed_share(evidence: Evidence, line: StepLine) -> float:
    """Return how much of a step a device waits at most for what is done at a line.

    That is its waits for the host, as far as stacks of a window show them in the line's function,
    or in functions that do not train, which it may call.
    """
    share = evidence.share(*removable_leaves(evidence))
    sites = [site for site in evidence.study.sites if site.name.startswith(HOST_LEAVES) and site.ns]
    if not evidence.on_device or not sites:
        return share
    training_names = {
        (PurePath(file).name, name.rpartition(".")[2])
        for file, name in training_calls.find_training_functions(evidence.call_lines)
    }
    exposed_ns = sum(
        site.ns
        for site in sites
        if is_function_of(site.file, site.function, line.location)
        or (PurePath(site.file).name, site.function) not in training_names
    )
    return share * exposed_ns / sum(site.ns for site in sites)


def freed_leaves(evidence: Evidence) -> tuple[str, ...]:
    """Return the leaves of waits that go where the thread has less to do, and launches earlier.

    What it loads itself it loads earlier, too; workers are waited for all the same.
    """
    loads_itself = not any(
        use.workers and use.workers.processes and use.share for use in evidence.loader_uses
    )
    leaves = removable_leaves(evidence)
    return (*leaves, _DATA) if loads_itself else leaves


def idle_share(evidence: Evidence) -> float:
    """Return how much of a step a device idles that a thread with less to do may save.

    Windows slow the thread, so they do not tell which of its lines a device waits for in plain
    steps. But where the thread launches ahead of its device, a step is as long as the device works.
    """
    return max(0.0, min(1 - min_step_share(evidence), evidence.share(*freed_leaves(evidence))))


def freed_share(evidence: Evidence, exposed_share: float) -> float:
    """Return what a line is worth at most in the middle: all for which the device idles."""
    return max(exposed_share, idle_share(evidence) if evidence.on_device else 0.0)


def shown_share(evidence: Evidence) -> float:
    """Return how much of the host's time surely shows: a device may work meanwhile, unseen too."""
    leaves = *_HIDING, UNSPLIT, UNRECORDED
    hidden_share = evidence.share(*leaves) if evidence.has_device else 0.0
    return max(_MIN_SHOWN_SHARE, 1 - hidden_share)


def own_work_share(evidence: Evidence, line: StepLine) -> Estimate:
    """Return how much of a step a device works for operators that a line calls: it goes with it.

    Of operators without a graph, as stacks of a window show them of the line's function: as much
    as the line takes of the function's time outside training. Without stacks up to all is possible
    that the line launches, by samples beside Python, and at least the shortest kernels are its own.
    """
    if not evidence.on_device or not evidence.step_ns:
        return Estimate(0.0, 0.0, 0.0)
    busy_share = evidence.share("busy.")
    if not evidence.study.sites:
        python_share = sum(
            code.share * code.inside
            for code in evidence.host_code
            if (code.file, code.line) == (line.location.file, line.location.line)
        )
        launches_share = max(0.0, line.share.mid - python_share)
        most, least = (
            share * busy_share for share in (launches_share, _least_work(evidence, launches_share))
        )
        return Estimate(least, (least + most) / 2, most)
    work_ns = sum(
        site.ns
        for site in evidence.study.sites
        if site.name.startswith(ON_DEVICE)
        and is_function_of(site.file, site.function, line.location)
    )
    shares = [
        neighbour.share.mid
        for neighbour in step_lines.find_step_lines(evidence)
        if is_function_of(neighbour.location.file, neighbour.location.function or "", line.location)
    ]
    line_ns = work_ns * line.share.mid / max(line.share.mid, sum(shares))
    share = min(busy_share, line_ns / windows.count_steps(evidence) / evidence.step_ns)
    return Estimate(share, share, share)


def _least_work(evidence: Evidence, launches_share: float) -> float:
    """Return which share of a device's time a share of its launches takes at least.

    What else is launched may be the longest kernels, but it is no more than there are launches
    left for: thousands of short kernels of one line cannot be those of a model.
    """
    kernels = sorted(evidence.study.tables.kernels, key=lambda kernel: kernel.mean_ns)
    n_left = launches_share * sum(kernel.calls for kernel in kernels)
    least_ns = 0.0
    for kernel in kernels:
        n_calls = min(n_left, kernel.calls)
        least_ns, n_left = least_ns + n_calls * kernel.mean_ns, n_left - n_calls
    all_ns = sum(kernel.device_ns for kernel in kernels)
    return min(launches_share, least_ns / all_ns) if all_ns else 0.0


def min_step_share(evidence: Evidence) -> float:
    """Return how long a step is at least while its device does the same work, as a share of it.

    Waits for other ranks are no work of the device: they go with what makes a rank late.
    """
    if not evidence.on_device:
        return 0.0
    work_share = evidence.share(*DEVICE_WORK) - evidence.share(*rank_steps.RANK_WAITS)
    return min(1.0, max(0.0, work_share))


class DeviceWork(Struct, frozen=True):
    """What a device works for an operator that a line calls."""

    operator: str
    calls: float  # a step
    share: float  # of a step
    kept_share: float  # of what the device works for the operator: that of other calls


class DeviceLine(Struct, frozen=True):
    """A line, or only a function by that where it begins, and the operators that it calls."""

    location: Location
    is_exact: bool  # samples show that the operators are called there
    works: tuple[DeviceWork, ...]  # the longest first
    is_late: bool = False  # it stands below the backward pass: it is no loss

    @property
    def is_aside(self) -> bool:
        """Return whether it is known to train nothing."""
        return self.is_late and self.is_exact

    @property
    def share(self) -> float:
        """Return how much of a step the device works for the line."""
        return sum(work.share for work in self.works)

    @property
    def calls_words(self) -> str:
        """Return the operators, the first by name."""
        first, *others = self.works
        words = f"{first.operator} {windows.format_count(first.calls)}×"
        nouns = "operator" if len(others) == 1 else "operators"
        return f"{words} and {len(others)} other {nouns}" if others else words


def find_device_line(evidence: Evidence) -> DeviceLine | None:
    """Return the line with most of such work; ``None``: there is none, or it is spread.

    Lines are sampled where operators are launched, and where the thread waits as the queue of its
    device is full. A sample of the call itself tells its line; else most of the function's time
    outside training has to be at one line, which may do something else, beside the device. Below
    the backward pass what else the function computes so is then taken for that line's, too: of a
    sum of squares the longest operator is a third. Above it the batch may be made.
    """
    sites = sorted(_own_sites(evidence), key=lambda site: -site.ns)
    if not sites or not evidence.step_ns:
        return None
    function = Location(sites[0].file, sites[0].line, sites[0].function)
    name = sites[0].name.removeprefix(ON_DEVICE).removeprefix("aten::")
    call = find_call(
        evidence,
        function,
        lambda call: (
            call.callee.rpartition(".")[2] == name
            or (call.callee == _DISPATCH and _DISPATCHED in name)
        ),
    )
    top_line = _find_top_line(evidence, sites[0])
    if call is None and top_line is None:
        return None
    is_late = _follows_passes(evidence, call or top_line)
    neighbours = [
        site for site in sites if Location(site.file, site.line, site.function) == function
    ][: None if is_late else 1]
    lines = [call.line] if call is not None else []
    if top_line is not None and _launches(evidence, top_line, neighbours):
        lines.append(top_line.location.line)
    return DeviceLine(
        replace(function, line=lines[0]) if lines else function,
        bool(lines),
        tuple(_measure_work(evidence, site) for site in neighbours),
        is_late,
    )


def _follows_passes(evidence: Evidence, line: CallLine | StepLine | None) -> bool:
    """Return whether a line by which work is named stands below all passes of its function."""
    if isinstance(line, CallLine):
        return line.line > training_calls.last_pass(line.file, line.function, evidence.call_lines)
    return line is not None and step_lines.follows_passes(line, evidence.call_lines)


def _launches(evidence: Evidence, line: StepLine, sites: Sequence[Site]) -> bool:
    """Return whether what a line takes is calling operators, as long as windows show these calls.

    A line that takes much longer does something else: one call that a device works long for is no
    reason for it.
    """
    names = {site.name.removeprefix(ON_DEVICE) for site in sites}
    called_ns = sum(
        call.ns
        for call in evidence.study.sites
        if call.name in names and (call.file, call.function) == (sites[0].file, sites[0].function)
    )
    line_ns = line.share.mid * (evidence.step_ns or 0)
    return called_ns / windows.count_steps(evidence) >= _MIN_LAUNCH_SHARE * line_ns


def work_changes(evidence: Evidence, line: DeviceLine) -> Sequence[Change]:
    """Return what a device need not work; where the thread waits for it so long, that is the gain.

    Windows slow the thread, which then waits less: samples of plain steps show its waits.
    """
    share = line.share
    if step_lines.waited_share(evidence) < share:
        return [Omit((work.operator,), keep=work.kept_share) for work in line.works]
    lost_share = Estimate(_MIN_WAITED_SHARE * share, share, share)
    return [remove_share(evidence, lost_share, ("busy.",))]


def _measure_work(evidence: Evidence, site: Site) -> DeviceWork:
    n_steps, operator = windows.count_steps(evidence), site.name.removeprefix(ON_DEVICE)
    all_ns = windows.sum_calls(evidence, operator).device_ns * n_steps
    own_share = _count_nested(evidence, site, operator) * site.ns / all_ns if all_ns else 1.0
    return DeviceWork(
        operator,
        site.calls / n_steps,
        site.ns / n_steps / (evidence.step_ns or 1),
        0.0 if own_share >= _MIN_CALLS_SHARE else 1 - own_share,
    )


def _count_nested(evidence: Evidence, site: Site, operator: str) -> float:
    """Return how many calls each of a function's is, where it calls itself and nobody else does.

    Times of calls within one of the same name are in the operator's sum once more.
    """
    own_calls = sum(
        call.calls
        for call in evidence.study.sites
        if call.name == operator and (call.file, call.function) == (site.file, site.function)
    )
    all_calls = round(windows.sum_calls(evidence, operator).count * windows.count_steps(evidence))
    is_whole = own_calls % site.calls == 0 and own_calls == all_calls
    return own_calls / site.calls if is_whole else 1.0


def _own_sites(evidence: Evidence) -> list[Site]:
    """Return the stepping functions' operators that are called hardly anywhere else."""
    functions = training_calls.find_stepping_functions(evidence.call_lines)
    sites: list[Site] = []
    for site in evidence.study.sites:
        name = site.name.removeprefix(ON_DEVICE)
        is_own = any(
            is_function_of(site.file, site.function, Location(file, 0, function))
            for file, function in functions
        )
        is_copy = name.removeprefix("aten::") in _COPIES
        if name != site.name and is_own and not is_copy and not _is_elsewhere(evidence, site, name):
            sites.append(site)
    return sites


def _is_elsewhere(evidence: Evidence, site: Site, name: str) -> bool:
    """Return whether other functions call an operator, too: it would be omitted there as well."""
    calls = [call for call in evidence.study.sites if call.name == name]
    own_calls = sum(
        call.calls for call in calls if (call.file, call.function) == (site.file, site.function)
    )
    return own_calls < _MIN_CALLS_SHARE * sum(call.calls for call in calls)


def _find_top_line(evidence: Evidence, site: Site) -> StepLine | None:
    """Return the line with most of a function's samples outside training; ``None``: spread."""
    lines = [
        line
        for line in step_lines.find_step_lines(evidence)
        if is_function_of(site.file, site.function, line.location)
    ]
    top_line = max(lines, key=lambda line: line.share.mid, default=None)
    all_share = sum(line.share.mid for line in lines)
    is_most = top_line is not None and top_line.share.mid >= _MIN_LINE_SHARE * all_share
    return top_line if is_most else None
