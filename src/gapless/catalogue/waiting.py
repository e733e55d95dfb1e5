"""How a training waits for its data, as a trace alone shows it; for rules of input.

A trace shows that the training thread asked for a batch, who made it (the thread itself, or
workers), and how long the step stood still for it. It shows neither how many workers there are, nor
what they do, nor what processors they have: so the wait as a whole is all that can be at stake.
"""

from dataclasses import dataclass
from typing import Final

from gapless.catalogue import ranked, windowed
from gapless.catalogue.choosing import named
from gapless.catalogue.loading import percent
from gapless.catalogue.ruling import Rule
from gapless.model.change import Feed
from gapless.model.edit import Where
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.model.study import IN_LOADING, Site
from gapless.replay.service import HAND_OVER

_LEAST: Final = 0.02  # of the step: below, a loader is hardly waited for
_MOSTLY: Final = 0.6  # of the time in which a batch is asked for: then a function is what takes it
_RECORD: Final = (
    "gapless run … records the training, and finds how many workers keep up, and which stage of "
    "making a batch is slow"
)


@dataclass(frozen=True)
class Waiting:
    """What a step stands still for a kind of loader, in ns, and for how many batches."""

    leaf: str
    waited_ns: float
    batches: float  # a step
    asked_ns: float  # of the host, in asking for them

    @property
    def each_ns(self) -> float:
        """Give the wait for a batch."""
        return self.waited_ns / self.batches if self.batches else 0.0


def waiting(seen: Seen, loader: Loader) -> Waiting | None:
    """Give how long steps stand still for a loader of a trace; ``None``: hardly at all.

    Raises ``NotSeenError`` where the trace has no steps.
    """
    leaf = "idle.data.unstaged" if loader.num_workers else "idle.data.main"
    many, step = windowed.steps(seen), seen.step_ns
    waited = ranked.least(seen, leaf)  # what one rank waits for more is that rank's
    if not step or waited < _LEAST * step or loader.trains is False:
        return None
    return Waiting(leaf, waited, loader.batches / many, loader.waited_ns / many)


def loss_at_home(this: Rule, seen: Seen, loader: Loader) -> Loss | None:
    """Give that the training thread makes batches itself, where a trace shows that."""
    found = None if loader.num_workers else waiting(seen, loader)
    if found is None:
        return None
    inside, share = _inside(seen, found)
    within = ""
    if inside is not None:
        place = named(Where(inside.file, inside.line, inside.function))
        within = f", {percent(share)} of it in {inside.function} ({place})"
    return this.loss(
        f"The training process makes each batch itself, {windowed.of_step(seen, found.waited_ns)}"
        f"{within}.",
        Feed(loader.id),
        where=_place(seen),
        evidence=_evidence(found),
        no_remedy=f"Workers make batches beside the step: DataLoader(…, num_workers=N). {_RECORD}.",
        inferred=True,
    )


def loss_of_workers(this: Rule, seen: Seen, loader: Loader) -> Loss | None:
    """Give that workers are late, where a trace shows that the training waits for them.

    What handing a batch over takes is no lateness.
    """
    found = waiting(seen, loader) if loader.num_workers else None
    if found is None or found.each_ns <= HAND_OVER.high:
        return None
    return this.loss(
        f"Workers make batches more slowly than the training uses them: it waits for them in "
        f"{windowed.of_step(seen, found.waited_ns)}; how many "
        "workers there are the trace does not tell.",
        Feed(loader.id),
        where=_place(seen),
        evidence=_evidence(found),
        no_remedy=f"More workers help if processors are free for them, else a cheaper sample. "
        f"{_RECORD}.",
        inferred=True,
    )


def _evidence(found: Waiting) -> tuple[Measure, ...]:
    return (
        Measure("waiting for data, a step", found.waited_ns, "ns"),
        Measure("batches asked for, a step", found.batches, ""),
        Measure("asking for them on the host, a step", found.asked_ns, "ns"),
    )


def _place(seen: Seen) -> Where | None:
    """Give the user's function that asks for batches, where stacks tell."""
    return windowed.site(seen, "idle.data.main", "idle.data.unstaged")


def _inside(seen: Seen, found: Waiting) -> tuple[Site | None, float]:
    """Give the innermost function that takes most of what batches take, and its share."""
    whole = found.asked_ns * windowed.steps(seen)
    most = [
        one
        for one in seen.study.sites
        if one.name == IN_LOADING and whole and _MOSTLY * whole <= one.ns <= whole
    ]
    inner = min(most, key=lambda one: one.ns, default=None)
    return inner, inner.ns / whole if inner is not None else 0.0
