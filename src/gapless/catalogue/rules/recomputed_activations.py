"""Activations that are computed twice although there is room to keep them."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, share, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import changed
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import worked
from gapless.model.edit import Where
from gapless.model.facts import Facts
from gapless.model.finding import Loss, Measure
from gapless.model.run import DeviceState
from gapless.model.seen import Seen
from gapless.replay.recomputed import kept

_LEAST: Final = 0.01  # of the step
_FULL: Final = 0.6  # of the device's memory: above, there may be no room
_CHECKPOINTED: Final = examples.gpu(examples.model(checkpoints=True))
_TWICE: Final = (
    worked("aten::mm", ((4096, 768), (768, 3072)), 12, "busy.tc_math", dtype="bf16", calls=90),
    worked(
        "aten::addmm",
        ((3072,), (4096, 768), (768, 3072)),
        4,
        "busy.tc_math",
        dtype="bf16",
        calls=30,
        backward=True,
        again=True,
    ),
)


def _state(used: int) -> DeviceState:
    return DeviceState(0, 0.99, None, None, {}, 0.0, used << 30, 140 << 30, None)


def _run(facts: Facts, used: int) -> Seen:
    return changed(stated(facts, {"busy.tc_math": 16}, *_TWICE), devices_seen=(_state(used),))


@rule(
    "G404",
    "recomputed-activations",
    since="0.1",
    figures=[
        Figure(
            "A third of the memory is in use",
            "4.0 ms of each 16.0 ms step compute activations once more; 42 of 140 GiB of the "
            "device's memory were in use at most.",
            _run(_CHECKPOINTED, 42),
        ),
        Figure("There would be no room", None, _run(_CHECKPOINTED, 120)),
        Figure(
            "They are kept",
            None,
            stated(examples.gpu(), {"busy.tc_math": 16}, _TWICE[0]),
        ),
    ],
)
def recomputed_activations(seen: Seen) -> Loss | None:
    """Recognise activation checkpointing in a run whose device has memory to spare.

    ## Why it costs time
    The forward pass of what is checkpointed runs twice: a third of all computing more, for memory
    that nobody uses.

    ## How it is measured
    By kernels that a forward operator launched within the backward pass (without a device by such
    operators themselves); and by the most memory that was in use, which leaves room if it is below
    three fifths. Whether the activations
    do fit is what a trial shows.
    """
    rows = work_of(seen)
    again = sum(one.ns for one in rows if one.again)
    used, whole = _memory(seen)
    if share(seen, again) < _LEAST or (used and whole and used > _FULL * whole):
        return None
    room = "how much memory is free was not recorded"
    if used and whole:
        room = f"{used >> 30} of {whole >> 30} GiB of the device's memory were in use at most"
    memory = (Measure("most memory in use", used, "bytes"),) if used else ()
    modules = seen.facts is not None and bool(seen.facts.models) and not seen.foreign
    return recomputed_activations.loss(
        f"{windowed.of_step(seen, per_step(seen, again))} compute activations once more; {room}.",
        *kept(rows),
        where=windowed.site(seen, "CheckpointFunction", "torch.utils.checkpoint.*") or _model(seen),
        evidence=(Measure("computed again, a step", per_step(seen, again), "ns"), *memory),
        helps=("checkpointing-off",) if modules else (),
        no_remedy=None if modules else "Leave torch.utils.checkpoint out.",
    )


def _model(seen: Seen) -> Where | None:
    """Give where the model that checkpoints was made."""
    models = () if seen.facts is None else seen.facts.models
    return next((one.where for one in models if one.checkpoints is not False), None)


def _memory(seen: Seen) -> tuple[int | None, int | None]:
    """Give the most that was in use of any device's memory, and the size of it."""
    recorded = seen.study.recorded
    known = [
        (one.memory_peak, one.memory_total)
        for one in (() if recorded is None else recorded.devices_seen)
        if one.memory_peak and one.memory_total
    ]
    return max(known, key=lambda one: one[0] / one[1], default=(None, None))
