"""Forward passes whose results nothing uses."""

from pathlib import PurePath
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import MS, operator
from gapless.model.change import Omit
from gapless.model.edit import Where
from gapless.model.finding import Loss, Measure
from gapless.model.host_code import CallLine
from gapless.model.seen import Seen
from gapless.model.study import UNUSED, UNUSED_FIRST, UNUSED_LATER, Site

_LEAST: Final = 0.01  # of the step
_TWO: Final = 2  # lines: of the pass that nothing uses, and of the one that is
_PASS: Final = operator(UNUSED, calls=1, host_ms=6)


@rule(
    "G517",
    "unused-forward",
    since="0.1",
    figures=[
        Figure(
            "The model is called twice, and one of the results is left",
            "1 forward pass of each step makes a graph that no backward pass runs through, and "
            "nothing takes its result: 6.0 ms of each 24.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 24},
                _PASS,
                Site(UNUSED, "train.py", 44, "train", 60 * MS, 10),
                Site(UNUSED_FIRST, "model.py", 12, "forward", 60 * MS, 10),
                CallLine("project/train.py", 48, "train", "project/model.py", "Net.forward", 0.2),
                CallLine("project/train.py", 49, "train", "project/model.py", "Net.forward", 0.3),
            ),
        ),
        Figure(
            "A trace without stacks",
            "1 forward pass of each step makes a graph that no backward pass runs through, and "
            "nothing takes its result: 6.0 ms of each 24.0 ms step.",
            stated(None, {"busy.math": 24}, _PASS, on_device=False),
        ),
        Figure(
            "A window with stacks shows none: it is of another network, whose values may be used",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 24},
                _PASS,
                Site("aten::mm", "train.py", 44, "train", 60 * MS, 10),
            ),
        ),
        Figure(
            "Every pass is used",
            None,
            stated(examples.cpu(), {"busy.math": 24}, operator("aten::mm", calls=8, host_ms=24)),
        ),
    ],
)
def unused_forward(seen: Seen) -> Loss | None:
    """Recognise a forward pass that runs in each step, and whose result nothing uses.

    ## Why it costs time
    A call that was left from an experiment, a model that is asked once for the loss and once more
    for something that nobody reads any longer: all of it is computed, and its graph is kept until
    the result is overwritten.

    ## How it is measured
    Autograd numbers the nodes of its graph, and the profiler notes these numbers with operators and
    with the nodes that a backward pass evaluates. A pass none of whose nodes is evaluated is named
    only if the same step has another one that is used, of the same operators with inputs of the
    same sizes, and if no operator takes a tensor as large as its results before the losses are
    known, but those that a backward pass needs: these take the other's. So neither pictures that a
    generator makes for a discriminator are meant, nor what a target or a teacher gives: their
    values are used, without their graph. In a window with stacks both passes must be of one
    module. What takes such a tensor once all losses are known (a metric) is said to be the other
    one's, unless it is done twice.

    Its price is that of its operators, what they launch, and of Python between them. The line is
    the one at which sampled stacks stood in it.
    """
    called, step = windowed.calls(seen, UNUSED), seen.step_ns
    account, sites = seen.study.account, seen.study.sites
    spent = called.host_ns + called.device_ns
    if not step or not account.steps or spent < _LEAST * account.wall_ns / account.steps:
        return None
    if sites and not any(one.name == UNUSED for one in sites):
        return None
    many = windowed.times(called.count)
    one = "forward pass" if many == "1" else "forward passes"
    makes, its = ("makes", "its result") if many == "1" else ("make", "their results")
    longest = max(called.host_ns, called.device_ns)
    return unused_forward.loss(
        f"{many} {one} of each step {makes} a graph that no backward pass runs through, and "
        f"nothing takes {its}: {windowed.of_step(seen, longest)}.",
        Omit((UNUSED,)),
        where=_where(seen),
        evidence=(
            Measure("such passes, a step", called.count, ""),
            Measure("on the host, a step", called.host_ns, "ns"),
            Measure("on devices, a step", called.device_ns, "ns"),
        ),
        no_remedy=(
            "leave it out, and take what metrics need from the pass that is used; if it is there "
            "for what it changes beside (statistics of batch norms), put it under `with "
            "torch.no_grad():`"
        ),
        inferred=True,
    )


def _where(seen: Seen) -> Where | None:
    """Give the line that calls it; where samples do not tell that, the function that is called."""
    recorded, sites = seen.study.recorded, seen.study.sites
    caller = _most(sites, UNUSED)
    called = _most(sites, UNUSED_FIRST, UNUSED_LATER)
    if caller is None or called is None:
        return None
    rows = () if recorded is None else recorded.call_lines
    mine = sorted((one for one in rows if _is_of(one, caller, called)), key=lambda one: one.line)
    if not mine or len(mine) > _TWO:
        return Where(called.file, called.line, called.function)
    line = mine[0] if called.name == UNUSED_FIRST else mine[-1]
    return Where(line.file, line.line, line.function)


def _most(sites: tuple[Site, ...], *names: str) -> Site | None:
    return max((one for one in sites if one.name in names), key=lambda one: one.ns, default=None)


def _is_of(line: CallLine, caller: Site, called: Site) -> bool:
    """Tell whether a line is one at which a function calls another: windows cut paths short."""
    pairs = (
        (line.file, line.function, caller),
        (line.called_file, line.called, called),
    )
    return all(
        PurePath(file).name == PurePath(site.file).name
        and function.rpartition(".")[2] == site.function.rpartition(".")[2]
        for file, function, site in pairs
    )
