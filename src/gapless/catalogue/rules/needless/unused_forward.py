"""Forward passes whose results nothing uses."""

from pathlib import PurePath
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import Omit
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.host_code import CallLine
from gapless.model.study import UNUSED, UNUSED_FIRST, UNUSED_LATER, Site

_MIN_STEP_SHARE: Final = 0.01  # of the step
_MAX_LINES: Final = 2  # lines: of the unused pass, and of the used one


@rule(
    "G517",
    "unused-forward",
    figures="""
    pass_calls = operator(UNUSED, calls=1, host_ms=6)
    # The model is called twice, and one of the results is left
    > 1 forward pass of each step makes a graph that no backward pass runs through, and nothing
      takes its result: 6.0 ms of each 24.0 ms step.
    cpu()
    busy.math 24
    pass_calls, Site(UNUSED, "train.py", 44, "train", 60 * MS, 10)
    Site(UNUSED_FIRST, "model.py", 12, "forward", 60 * MS, 10)
    CallLine("project/train.py", 48, "train", "project/model.py", "Net.forward", 0.2)
    CallLine("project/train.py", 49, "train", "project/model.py", "Net.forward", 0.3)
    # A trace without stacks
    > 1 forward pass of each step makes a graph that no backward pass runs through, and nothing
      takes its result: 6.0 ms of each 24.0 ms step.
    busy.math 24
    on_device=False
    pass_calls
    # A window with stacks shows none: it is of another network, whose values may be used
    cpu()
    busy.math 24
    pass_calls, Site("aten::mm", "train.py", 44, "train", 60 * MS, 10)
    # Every pass is used
    cpu()
    busy.math 24
    operator("aten::mm", calls=8, host_ms=24)
    """,
)
def unused_forward(evidence: Evidence) -> Detection | None:
    """Recognise a forward pass that runs in each step, and whose result nothing uses.

    ## Why it costs time
    A call left over from an experiment, or a model that is called once for the loss and once more
    for something that is no longer read: all of it is computed, and its graph is kept until the
    result is overwritten.

    ## How it is measured
    Autograd numbers the nodes of its graph, and the profiler records these numbers with operators
    and with the nodes that a backward pass evaluates. A pass without evaluated nodes is reported
    only if the same step has another, used one with the same operators and input sizes, and if no
    operator takes a tensor as large as its results before the losses are known, except those that a
    backward pass needs, which belong to the other pass. So this excludes pictures that a generator
    makes for a discriminator, and the results of a target or a teacher: their values are used,
    without their graph. In a window with stacks both passes must be of one module. What takes such
    a tensor after all losses are known (a metric) is attributed to the other pass, unless it is
    done twice.

    Its price is that of its operators, what they launch, and the Python between them. The line is
    the one that was sampled during the pass.
    """
    calls, step_ns = windows.sum_calls(evidence, UNUSED), evidence.step_ns
    account, sites = evidence.study.account, evidence.study.sites
    spent_ns = calls.host_ns + calls.device_ns
    if (
        not step_ns
        or not account.steps
        or spent_ns < _MIN_STEP_SHARE * account.wall_ns / account.steps
    ):
        return None
    if sites and not any(site.name == UNUSED for site in sites):
        return None
    count_words = windows.format_count(calls.count)
    noun = "forward pass" if count_words == "1" else "forward passes"
    verb, result_words = (
        ("makes", "its result") if count_words == "1" else ("make", "their results")
    )
    longest_ns = max(calls.host_ns, calls.device_ns)
    return unused_forward.detection(
        f"{count_words} {noun} of each step {verb} a graph that no backward pass runs through, and "
        f"nothing takes {result_words}: {windows.format_step_part(evidence, longest_ns)}.",
        Omit((UNUSED,)),
        location=_call_location(evidence),
        measures=(
            Measure("such passes, a step", calls.count, ""),
            Measure("on the host, a step", calls.host_ns, "ns"),
            Measure("on devices, a step", calls.device_ns, "ns"),
        ),
        no_remedy=(
            "leave it out, and take what metrics need from the pass that is used; if it is there "
            "for what it changes beside (statistics of batch norms), put it under `with "
            "torch.no_grad():`"
        ),
        inferred=True,
    )


def _call_location(evidence: Evidence) -> Location | None:
    """Return the line that calls the pass or, without samples of it, the called function."""
    sites = evidence.study.sites
    caller = _costliest_site(sites, UNUSED)
    callee = _costliest_site(sites, UNUSED_FIRST, UNUSED_LATER)
    if caller is None or callee is None:
        return None
    rows = evidence.call_lines
    call_lines = sorted(
        (row for row in rows if _is_call_of(row, caller, callee)), key=lambda row: row.line
    )
    if not call_lines or len(call_lines) > _MAX_LINES:
        return Location(callee.file, callee.line, callee.function)
    line = call_lines[0] if callee.name == UNUSED_FIRST else call_lines[-1]
    return Location(line.file, line.line, line.function)


def _costliest_site(sites: tuple[Site, ...], *names: str) -> Site | None:
    return max(
        (site for site in sites if site.name in names), key=lambda site: site.ns, default=None
    )


def _is_call_of(line: CallLine, caller: Site, callee: Site) -> bool:
    """Return whether a line is a call of one function by another; windows shorten paths."""
    pairs = ((line.file, line.function, caller), (line.callee_file, line.callee, callee))
    return all(
        PurePath(file).name == PurePath(site.file).name
        and function.rpartition(".")[2] == site.function.rpartition(".")[2]
        for file, function, site in pairs
    )
