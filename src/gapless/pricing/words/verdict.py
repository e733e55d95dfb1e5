"""Why a step takes as long as it does: what takes most of it besides computing, in plain words.

The account knows this for any run with steps, whatever rules and prices find. A cause and a fix are
shown with it where they are known.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gapless.catalogue.declare import listing
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.frameworks.frameworks import find_framework, runs_loop
from gapless.catalogue.queries import between_operators, samples
from gapless.catalogue.queries.input.loaders import percent
from gapless.catalogue.queries.outlook import describe_outlook as near_limit
from gapless.catalogue.queries.periodic import find_environment
from gapless.catalogue.queries.ranks import rank_steps, rank_waits
from gapless.model.change import (
    Change,
    CopyChange,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.edit import Location, short_path
from gapless.model.evidence import Evidence
from gapless.model.finding import Finding, StepVerdict
from gapless.model.leaf import group_of
from gapless.pricing.locate import line_of_leaf
from gapless.pricing.words import aside
from gapless.pricing.words.activities import (
    LEAF_PHRASES,
    MOSTLY,
    describe_call,
    describe_code,
    describe_data_wait,
    describe_kind,
    describe_samples,
    find_code,
    largest_leaf,
    name_waiter,
)

COMPUTE: Final = "compute"
_MIN_BOUND_SHARE: Final = 0.75  # of a step: above that a step is mostly computing
# of a step: what takes so much besides computing is named first nevertheless
MIN_LARGE_SHARE: Final = 0.2
_MIN_SAID_SHARE: Final = 0.05  # of a step: what takes less is not mentioned with it
_ABLATIONS: Final = {
    "data": ("cached-batch", "cached-batch-on-device"),
    "copy": ("cached-batch-on-device",),
    "io": ("no-logging", "no-checkpoint", "no-evaluation"),
}
_UNDONE: Final = "idle.device.wait"
_HOST_LEAVES: Final = ("idle.host.", "idle.launch.", "idle.comm.")
_PROFILER_GROUP: Final = "observer"  # the group of this recorder and its windows
_RARE_PHRASES: Final[Mapping[str, str]] = {
    "idle.gc": "goes to Python's garbage collector",
    "idle.compile": "goes to the compiler",
    "idle.alloc.host": "goes to allocating memory of the host",
    "idle.alloc": "goes to allocating memory of the device",
    "idle.io_main.eval": "goes to evaluation",
    "idle.io_main.checkpoint": "goes to saving checkpoints",
    "idle.io_main.logging": "goes to logging",
    "idle.io_main.profiling": "goes to the training's own profiler: collecting and writing traces",
}


def verdict_of(evidence: Evidence, findings: Sequence[Finding]) -> StepVerdict | None:
    """Describe what takes most of a step besides computing; ``None`` without steps.

    ``findings``: the named or likely causes, to know whether one concerns it.
    """
    if not evidence.step_ns or not evidence.account.wall_ns:
        return None
    if between_operators.is_empty_trace(evidence):
        return StepVerdict(aside.EMPTY_TRACE, "unknown", 1.0, named=False)
    rare_ns = aside.rare_leaves(evidence)
    wall_ns = evidence.account.wall_ns - sum(rare_ns.values())
    lumps = Counter[str]()
    for leaf, ns in rare_ns.items():
        lumps[leaf if leaf == samples.UNSPLIT else group_of(leaf)] += ns
    shares = {name: (ns - lumps[name]) / wall_ns for name, ns in evidence.account.groups.items()}
    if not evidence.is_trace_only:  # of short steps of a check it may be half: no cause there
        shares.pop(_PROFILER_GROUP, None)
    return _compose_verdict(evidence, findings, shares, aside.describe_rare(evidence, rare_ns))


def _compose_verdict(
    evidence: Evidence, findings: Sequence[Finding], shares: Mapping[str, float], rare_text: str
) -> StepVerdict:
    computing = shares.get(COMPUTE, 0.0)
    other_shares = {name: share for name, share in shares.items() if name != COMPUTE}
    common_shares = {
        name: _common_share(evidence, name, share) for name, share in other_shares.items()
    }
    owner = max(other_shares, key=lambda name: common_shares[name], default=COMPUTE)
    if owner == COMPUTE or (
        computing >= _MIN_BOUND_SHARE and other_shares[owner] < MIN_LARGE_SHARE
    ):
        is_named = any(
            COMPUTE in affected_groups(finding.detection.changes) for finding in findings
        )
        sentence = _describe_compute(evidence, computing, owner, other_shares) + rare_text
        return StepVerdict(sentence, COMPUTE, computing, is_named)
    share = other_shares[owner]
    computing_text = (
        f"; {_format_share(computing)} is computing" if computing >= _MIN_SAID_SHARE else ""
    )
    is_named = any(owner in affected_groups(finding.detection.changes) for finding in findings)
    others_text = "".join(
        f"; {_format_share(other_share)} {_short_phrase(evidence, name)}"
        for name, other_share in sorted(other_shares.items(), key=lambda item: -item[1])
        if name != owner and other_share >= MIN_LARGE_SHARE
    )
    sentence = (
        f"{_format_share(share)} of each step {_describe_owner(evidence, owner)}"
        f"{computing_text}{others_text}{rare_text}"
    )
    return StepVerdict(sentence, owner, share, is_named, _useful_ceilings(evidence, owner))


def _common_share(evidence: Evidence, owner: str, share: float) -> float:
    """Return the part of a share that all ranks have.

    What one of several ranks does in excess, the others wait for: it is the same time, seen
    twice.
    """
    leaves = evidence.account.parts.get(owner, {})
    if owner == "communication" or not leaves:
        return share
    owner_ns = evidence.per_step(*leaves)
    return share * rank_waits.min_rank_ns(evidence, *leaves) / owner_ns if owner_ns else share


def affected_groups(changes: Iterable[Change]) -> frozenset[str]:
    """Return the groups of the account that some changes concern."""
    return frozenset[str]().union(*map(_groups, changes))


def _groups(change: Change) -> frozenset[str]:
    match change:
        case LoaderChange(intra_op_threads=threads, num_workers=workers):
            threads_only = threads is not None and workers is None
            groups = {"data", COMPUTE} if threads_only else {"data"}
        case CopyChange():
            groups = {"copy"}
        case Drop(leaves=leaves) | HostChange(leaves=leaves):
            groups = set(filter(None, map(_group, leaves)))
        case Scale(leaves=leaves):
            groups = {COMPUTE, *filter(None, map(_group, leaves))}
        case Omit() | Merge():
            groups = {"host", "sync", "runtime", COMPUTE, "unknown", "step"}
        case _:
            groups = set[str]()
    return frozenset(groups)


def _group(prefix: str) -> str | None:
    try:
        return group_of(prefix.rstrip("."))
    except KeyError:  # "idle.": of several groups
        return None


def _format_share(share: float) -> str:
    return percent(min(1.0, share))


# ── What is not computing ───────────────────────────────────────────────────────────────────────


def _describe_owner(evidence: Evidence, owner: str) -> str:
    """Describe what a step does while it does not compute."""
    if owner == "unknown" and largest_leaf(evidence, owner) == _UNDONE:
        return f"{name_waiter(evidence)} leaves ready work undone, as when others compute on it"
    words = _DESCRIBE.get(owner)
    if words is None:
        return f"is not explained: nothing was recorded of what {name_waiter(evidence)} did"
    return words(evidence)


def _describe_host(evidence: Evidence) -> str:
    if not evidence.on_device:
        return f"{name_waiter(evidence)} spends outside operators{_host_phrase(evidence, 'host')}"
    return f"{name_waiter(evidence)} waits for the training thread{_host_phrase(evidence, 'host')}"


def _describe_sync(evidence: Evidence) -> str:
    return (
        f"{name_waiter(evidence)} has nothing to do, since the training thread waited for it "
        f"instead of launching more (synchronisation{_line_of_leaves(evidence, ('idle.sync',))})"
    )


def _describe_rare(evidence: Evidence, owner: str) -> str:
    """Describe which occasional work of the training thread takes most."""
    leaf = largest_leaf(evidence, owner) or ""
    if leaf == EVALUATION and (package := find_environment(evidence)) is not None:
        samples = describe_samples(evidence)
        return f"goes to collecting experience ({package}), the model in eval mode{samples}"
    words = next((text for name, text in _RARE_PHRASES.items() if leaf.startswith(name)), "")
    return f"{words or 'goes to what is done once in a while'}{_line_of_leaves(evidence, (leaf,))}"


def _host_phrase(evidence: Evidence, owner: str) -> str:
    """Describe what the training thread does meanwhile, and at which line."""
    leaf = largest_leaf(evidence, owner)
    if leaf is None or leaf not in LEAF_PHRASES:
        return ""
    words = (
        f"{describe_code(evidence, leaf)}{_line_of_python(evidence, leaf)}"
        if leaf in between_operators.PYTHON_LEAVES
        else f"{LEAF_PHRASES[leaf]}{_line_of_leaves(evidence, (leaf,))}"
    )
    return f", which is mostly {words}" if evidence.on_device else f", mostly {words}"


def _line_of_python(evidence: Evidence, leaf: str) -> str:
    """Describe where the thread's own code is: as it was sampled, else as windows charge it.

    A loop is one function, whatever it does: windows know no line in it, and what was sampled most
    often in it are torch's operators.
    """
    if not samples.sum_sampled_ns(evidence):
        return _line_of_leaves(evidence, (leaf,))
    location = samples.code_location(code := find_code(evidence))
    line_ref = _format_line(location)
    if location is not None and find_framework(evidence) and runs_loop(evidence, location):
        return describe_call(code, line_ref.strip(" ()"))
    return line_ref


def _line_of_leaves(evidence: Evidence, leaves: tuple[str, ...]) -> str:
    return _format_line(line_of_leaf(evidence, leaves))


def _format_line(location: Location | None) -> str:
    if location is None:
        return ""
    return f" ({short_path(location.file)}:{location.line})"


def _describe_ranks(evidence: Evidence) -> str:
    wait_share = evidence.share(*rank_steps.RANK_WAITS)
    if wait_share >= MOSTLY * evidence.share("comm.", "idle.comm."):
        if (leaf := _find_common_host_leaf(evidence)) is not None:
            return (
                "GPUs wait in collectives for the training threads, which do the same on all "
                f"ranks: they are mostly {LEAF_PHRASES[leaf]}"
            )
        last_ranks = [straggler.rank for straggler in evidence.study.stragglers[:1]]
        waited_for = f"rank {last_ranks[0]}, the last to come" if last_ranks else "the last to come"
        return f"ranks wait in collectives for {waited_for}"
    return "goes to communication that no computing hides"


def _find_common_host_leaf(evidence: Evidence) -> str | None:
    """Return what the thread of the rank that its peers' devices wait for does meanwhile.

    A thread that launches a little more slowly than the others is waited for all the time. ``None``
    where that is not most of the wait, or samples do not show that all ranks' threads do the same.
    """
    ranks, lines_by_rank = rank_waits.find_ranks(evidence), evidence.recorded.rank_lines
    if not evidence.on_device or len(lines_by_rank) < max(2, evidence.facts.world.ranks):
        return None
    if any(rank_waits.is_surplus_sampled(evidence, rank) for rank in lines_by_rank):
        return None
    slowest = max(ranks, key=lambda rank: rank.mean(*_HOST_LEAVES), default=None)
    if slowest is None or slowest.mean(*_HOST_LEAVES) < MOSTLY * max(
        rank.mean(*rank_steps.RANK_WAITS) for rank in ranks
    ):
        return None
    said_leaves = (leaf for leaf in LEAF_PHRASES if leaf.startswith(_HOST_LEAVES))
    leaf = max(said_leaves, key=slowest.mean)
    return leaf if slowest.mean(leaf) > 0 else None


_DESCRIBE: Final[Mapping[str, Callable[[Evidence], str]]] = {
    "data": describe_data_wait,
    "host": _describe_host,
    "sync": _describe_sync,
    "copy": lambda evidence: f"{name_waiter(evidence)} waits for copies between host and device",
    "communication": _describe_ranks,
    "runtime": lambda evidence: _describe_rare(evidence, "runtime"),
    "io": lambda evidence: _describe_rare(evidence, "io"),
    "observer": lambda _: "goes to a profiler, and not to the training",
    "step": aside.describe_unwindowed,
}

_SHORT_PHRASES: Final[Mapping[str, str]] = {
    "data": "is waiting for data",
    "host": "is spent outside operators",
    "sync": "is synchronisation",
    "copy": "is copying",
    "communication": "is communication",
    "observer": "is a profiler",
    "step": "is known only as a whole",
}

# ── Computing ───────────────────────────────────────────────────────────────────────────────────


def _describe_compute(
    evidence: Evidence, share: float, owner: str, other_shares: Mapping[str, float]
) -> str:
    """Describe what a step computes most, what else there is, and what bounds it."""
    leaf = largest_leaf(evidence, COMPUTE)
    mostly = (
        ""
        if leaf is None or leaf not in LEAF_PHRASES
        else f", mostly {describe_kind(evidence, leaf)}"
    )
    phrases = [f"{_format_share(share)} of each step is computing{mostly}"]
    if other_shares.get(owner, 0.0) >= _MIN_SAID_SHARE:
        phrases.append(f"{_format_share(other_shares[owner])} {_short_phrase(evidence, owner)}")
    if (limit_text := near_limit(evidence)) is not None:
        phrases.append(limit_text)
    return "; ".join(phrases)


def _short_phrase(evidence: Evidence, owner: str) -> str:
    """Describe in a few words what takes a part of a step besides computing."""
    if owner == "host" and evidence.on_device:
        return "is waiting for the training thread"
    if owner in ("runtime", "io"):
        return _describe_rare(evidence, owner).partition("; ")[0]
    return _SHORT_PHRASES.get(owner, "is not explained")


def _useful_ceilings(evidence: Evidence, owner: str) -> tuple[str, ...]:
    """Return the ablations that would show the largest gain for an owner of time."""
    if evidence.is_trace_only:
        return ()
    available = {ceiling.fix for ceiling in listing.propose_ceilings(evidence.facts)}
    return tuple(name for name in _ABLATIONS.get(owner, ()) if name in available)
