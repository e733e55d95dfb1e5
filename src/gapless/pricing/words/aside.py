"""What the parts of a step do not show: what was seen only once, and steps in no window."""

from collections.abc import Mapping
from typing import Final

from gapless.catalogue.effects.occasions import CHECKPOINT, EVALUATION, LOGGING, PROFILING
from gapless.catalogue.queries import periodic, windows
from gapless.catalogue.queries.input.loaders import percent
from gapless.catalogue.queries.samples import UNSPLIT, find_single_step
from gapless.model.evidence import Evidence
from gapless.model.rhythm import Sighting
from gapless.pricing.words.activities import describe_samples

EMPTY_TRACE: Final = "the trace holds no operator: its profiler recorded no step that computes"
_MIN_TIME_SHARE: Final = 0.05  # of the time: what takes less is not mentioned
_OCCASIONS: Final[Mapping[str, str]] = {
    CHECKPOINT: "a checkpoint",
    LOGGING: "a call of a logger",
    EVALUATION: "an evaluation",
    PROFILING: "a trace of the training's own profiler",
    UNSPLIT: "a long step",
}


def rare_leaves(evidence: Evidence) -> dict[str, int]:
    """Return the lumps of a recording whose period is not known: they have no share of a step.

    Something must remain of the time.
    """
    rare_ns = {
        leaf: evidence.account.leaves.get(leaf, 0)
        for leaf in _OCCASIONS
        if (sighting := _find_sighting(evidence, leaf)) is not None and sighting.period is None
    }
    return rare_ns if sum(rare_ns.values()) < evidence.account.wall_ns else {}


def describe_rare(evidence: Evidence, rare_ns: Mapping[str, int]) -> str:
    """Describe what was left aside, if it is much."""
    main_leaf = max(rare_ns, key=lambda leaf: rare_ns[leaf], default=None)
    sighting = None if main_leaf is None else _find_sighting(evidence, main_leaf)
    if (
        main_leaf is None
        or sighting is None
        or rare_ns[main_leaf] < _MIN_TIME_SHARE * evidence.account.wall_ns
    ):
        return ""
    duration = f"{sighting.each_ns / 1e9:.2f} s"
    each_word = "" if sighting.count == 1 else " each"
    frequency = f"{sighting.times}, {duration}{each_word}"
    share = percent(rare_ns[main_leaf] / evidence.account.wall_ns)
    lines = describe_samples(evidence) if main_leaf == UNSPLIT else ""
    return (
        f"; these shares leave aside {_OCCASIONS[main_leaf]} seen {frequency}, "
        f"{share} of the recorded steps' time{lines}"
    )


def _find_sighting(evidence: Evidence, leaf: str) -> Sighting | None:
    """Return how often something was seen; of steps that no window holds, one that is alone."""
    if leaf == UNSPLIT:
        return find_single_step(evidence)
    return periodic.find_sighting(evidence, leaf)


def describe_unwindowed(evidence: Evidence) -> str:
    """Describe which steps no window shows, and where samples of the thread were in them."""
    account = evidence.step_account
    atypical = None if account is None else account.unlike
    words = "is known only as a whole: no window shows what happens within it"
    if atypical is not None:
        steps_text = f"{percent(atypical.steps)} of all, {windows.ms(atypical.mean_ns)} each"
        words = f"is in steps of a kind that no window holds ({steps_text})"
    return f"{words}{describe_samples(evidence)}"
