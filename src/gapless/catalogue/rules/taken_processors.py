"""Processors that others use, or that the machine does not really have."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import gauge
from gapless.model.change import Change, Hosted, Scale
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import Others
from gapless.model.seen import Seen

_LEAST: Final = 0.25  # of the processors
_STOLEN: Final = 0.05
_HELD: Final = 5.0  # per cent of the time
_PASSING: Final = "what others take of the machine comes and goes with them"
_HOST: Final = ("idle.host", "idle.launch")
_DATA: Final = ("idle.data",)
_STEP: Final = {"busy.tc_math": 20, "idle.host.python": 10}


@rule(
    "G804",
    "taken-processors",
    since="0.1",
    figures=[
        Figure(
            "Half of them",
            "Others took 8.0 of 16 processors while the training ran.",
            stated(examples.gpu(), _STEP, Others(8.0, 0.0, 16)),
        ),
        Figure(
            "A limit of the control group",
            "A control group's limit held the training back for 40 % of the time.",
            stated(examples.gpu(), _STEP, Others(0.1, 0.0, 16), gauge("cpu.throttled", 40, 0, 90)),
        ),
        Figure(
            "Another machine on the same processors",
            "The host gave 0.5 of 2 processors to other machines while the training ran.",
            stated(examples.gpu(), _STEP, Others(0.0, 0.5, 2)),
        ),
        Figure(
            "The same, where the processors train",
            "Others took 1.0 of 2 processors while the training ran.",
            stated(examples.cpu(), {"busy.math": 20, "idle.host.python": 2}, Others(1.0, 0.0, 2)),
        ),
        Figure("A quiet machine", None, stated(examples.gpu(), _STEP, Others(0.1, 0.0, 16))),
    ],
)
def taken_processors(seen: Seen) -> Loss | None:
    """Recognise that processors were not the training's own while it ran.

    ## Why it costs time
    The threads that launch, and the workers that load, wait for a processor. What that takes comes
    and goes with the others, and makes all measurements uncertain.

    ## How it is measured
    By what the machine's processors did, less what the processes of the run took; by what a virtual
    machine's host took away (stolen time); by what a control group's limit held back. What making a
    batch waits for beside processors is no part of it.

    What others do to the machine is no fault of the training: it is told beside its causes, never
    as one of them, with what it may take at the most. A limit of the training's own control group
    is one.
    """
    recorded = seen.study.recorded
    found = None if recorded is None else recorded.others
    if recorded is None or found is None:
        raise NotSeenError("processors", "what others took was not sampled")
    many = found.processors or 0
    held = next((one.mean for one in recorded.machine if one.name == "cpu.throttled"), 0.0)
    stolen = found.stolen or 0.0
    if held >= _HELD:
        share, least = held / 100, held / 200  # while it holds, nothing runs
        text = f"A control group's limit held the training back for {held:.0f} % of the time."
    elif many and stolen >= _STOLEN * many:
        share, least = stolen / many, stolen / many / 2
        text = f"The host gave {stolen:.1f} of {many} processors to other machines while the "
        text += "training ran."
    elif many and found.cores >= _LEAST * many:
        share, least = found.cores / many, 0.0  # there may have been others to use
        text = f"Others took {found.cores:.1f} of {many} processors while the training ran."
    else:
        return None
    return taken_processors.loss(
        text,
        *_alone(seen, Interval(max(0.1, 1 - share), 1 - (share + least) / 2, 1 - least)),
        evidence=(
            Measure("processors that others took", found.cores, ""),
            Measure("stolen by the host", stolen, ""),
            Measure("held back by a limit", held / 100, "share"),
        ),
        no_remedy="Run it alone, ask for more processors, or raise the control group's limit.",
        unsure=None if held >= _HELD else _PASSING,
    )


def _alone(seen: Seen, factor: Interval) -> tuple[Change, ...]:
    """Give what processors of one's own change: of the host, and where they train, of all."""
    awake = _awake(seen)
    data = Interval(*(1 - awake * (1 - one) for one in (factor.low, factor.mid, factor.high)))
    host = (Hosted(_HOST, factor), *((Hosted(_DATA, data),) if awake else ()))
    return host if seen.on_device else (*host, Scale(factor, leaves=("busy.",)))


def _awake(seen: Seen) -> float:
    """Give the part of the waits for data in which who makes a batch wants a processor.

    The rest it sleeps (storage, a network, another process), on however many processors.
    """
    uses = seen.study.recorded.loaders if seen.study.recorded is not None else ()
    waits = wanted = 0.0
    for one in uses:
        made = one.workers
        parts = None if made is None else (made.on_cpu, made.run_queue, made.blocked)
        known = sum(part or 0.0 for part in parts or ())
        asleep = (made.blocked or 0.0) / known if made is not None and known else 0.0
        waits, wanted = waits + one.wait_ns, wanted + one.wait_ns * (1 - asleep)
    return wanted / waits if waits else 1.0
