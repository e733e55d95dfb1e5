"""Why a step takes as long as it does: what takes most of it beside computing, in plain words.

The account knows this of any run that steps, whatever rules and prices can tell. A cause and a fix
stand beside it where they are known.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gapless.catalogue import between, listing, ranked, sampled
from gapless.catalogue.effects.occasions import EVALUATION
from gapless.catalogue.loading import percent
from gapless.catalogue.occasional import experience
from gapless.catalogue.outlook import outlook as near_limit
from gapless.model.change import Change, Copied, Drop, Feed, Hosted, Merge, Omit, Scale
from gapless.model.edit import Where
from gapless.model.finding import Finding, Verdict
from gapless.model.leaf import group_of
from gapless.model.seen import Seen
from gapless.study.aside import as_a_whole, left_aside, seldom
from gapless.study.doing import DOING, MOSTLY, fed, largest, of_kind, stood, who
from gapless.study.locate import line_of_leaf

COMPUTE: Final = "compute"
_BOUND: Final = 0.75  # of a step: from there on computing is what a step is made of
_LARGE: Final = 0.2  # of a step: what takes so much beside computing is named first all the same
_NEXT: Final = 0.05  # of a step: what takes less is not mentioned beside it
_WORK: Final = ("busy.", "copy.", "comm.", "idle.device.gap", "idle.graph")
_ABLATIONS: Final = {
    "data": ("cached-batch", "cached-batch-on-device"),
    "copy": ("cached-batch-on-device",),
    "io": ("no-logging", "no-checkpoint", "no-evaluation"),
}
_UNDONE: Final = "idle.device.wait"
_OURS: Final = "observer"  # the group of this recorder and its windows
_LATE: Final[Mapping[str, str]] = {
    "idle.gc": "goes to Python's garbage collector",
    "idle.compile": "goes to the compiler",
    "idle.alloc.host": "goes to allocating memory of the host",
    "idle.alloc": "goes to allocating memory of the device",
    "idle.io_main.eval": "goes to evaluation",
    "idle.io_main.checkpoint": "goes to saving checkpoints",
    "idle.io_main.logging": "goes to logging",
    "idle.io_main.profiling": "goes to the training's own profiler: collecting and writing traces",
}


def verdict_of(seen: Seen, findings: Sequence[Finding]) -> Verdict | None:
    """Say what takes most of a step beside computing; ``None`` without steps.

    ``findings``: the causes that are named or likely, to tell whether one is about it.
    """
    if not seen.step_ns or not seen.account.wall_ns:
        return None
    aside = seldom(seen)
    wall = seen.account.wall_ns - sum(aside.values())
    lumps = Counter[str]()
    for leaf, ns in aside.items():
        lumps[group_of(leaf)] += ns
    shares = {name: (ns - lumps[name]) / wall for name, ns in seen.account.groups.items()}
    if seen.study.recorded is not None:  # of short steps of a check it may be half: no cause there
        shares.pop(_OURS, None)
    return _verdict(seen, findings, shares, left_aside(seen, aside))


def _verdict(
    seen: Seen, findings: Sequence[Finding], shares: Mapping[str, float], aside: str
) -> Verdict:
    computing = shares.get(COMPUTE, 0.0)
    others = {name: share for name, share in shares.items() if name != COMPUTE}
    everywhere = {name: _everywhere(seen, name, share) for name, share in others.items()}
    owner = max(others, key=lambda name: everywhere[name], default=COMPUTE)
    if owner == COMPUTE or (computing >= _BOUND and others[owner] < _LARGE):
        named = any(COMPUTE in about(one.loss.changes) for one in findings)
        sentence = _computes(seen, computing, owner, others) + aside
        return Verdict(sentence, COMPUTE, computing, named)
    share = others[owner]
    rest = f"; {_shown(computing)} is computing" if computing >= _NEXT else ""
    named = any(owner in about(one.loss.changes) for one in findings)
    sentence = f"{_shown(share)} of each step {_words(seen, owner)}{rest}{aside}"
    return Verdict(sentence, owner, share, named, _ceilings(seen, owner))


def _everywhere(seen: Seen, owner: str, share: float) -> float:
    """Give as much of a share as all ranks have.

    What one of several ranks does more of, the others wait for: it is the same time, seen twice.
    """
    leaves = seen.account.parts.get(owner, {})
    if owner == "communication" or not leaves:
        return share
    whole = seen.per_step(*leaves)
    return share * ranked.least(seen, *leaves) / whole if whole else share


def about(changes: Iterable[Change]) -> frozenset[str]:
    """Give the groups of the account that some changes are about."""
    return frozenset[str]().union(*map(_groups, changes))


def _groups(change: Change) -> frozenset[str]:
    match change:
        case Feed(intra_op_threads=threads, num_workers=workers):
            both = threads is not None and workers is None
            found = {"data", COMPUTE} if both else {"data"}
        case Copied():
            found = {"copy"}
        case Drop(leaves=leaves) | Hosted(leaves=leaves):
            found = set(filter(None, map(_group, leaves)))
        case Scale(leaves=leaves):
            found = {COMPUTE, *filter(None, map(_group, leaves))}
        case Omit() | Merge():
            found = {"host", "sync", "runtime", COMPUTE, "unknown", "step"}
        case _:
            found = set[str]()
    return frozenset(found)


def _group(prefix: str) -> str | None:
    try:
        return group_of(prefix.rstrip("."))
    except KeyError:  # "idle.": of several groups
        return None


def _shown(share: float) -> str:
    return percent(min(1.0, share))


# ── What is not computing ───────────────────────────────────────────────────────────────────────


def _words(seen: Seen, owner: str) -> str:
    """Say what a step does while it does not compute."""
    if owner == "unknown" and largest(seen, owner) == _UNDONE:
        return f"{who(seen)} leaves work undone that is ready for it, as where others compute on it"
    words = _SAYS.get(owner)
    if words is None:
        return f"is not explained: nothing was recorded of what {who(seen)} did"
    return words(seen)


def _waits_for_host(seen: Seen) -> str:
    if not seen.on_device:
        return f"{who(seen)} spends outside operators{_doing(seen, 'host')}"
    return f"{who(seen)} waits for the training thread{_doing(seen, 'host')}"


def _synchronises(seen: Seen) -> str:
    return (
        f"{who(seen)} has nothing to do, since the training thread waited for it instead of "
        f"launching more (synchronisation{_at(seen, ('idle.sync',))})"
    )


def _goes(seen: Seen, owner: str) -> str:
    """Say what seldom work of the training thread takes most."""
    leaf = largest(seen, owner) or ""
    if leaf == EVALUATION and (package := experience(seen)) is not None:
        return f"goes to collecting experience ({package}), the model in eval mode{stood(seen)}"
    words = next((text for name, text in _LATE.items() if leaf.startswith(name)), "")
    return f"{words or 'goes to what is done once in a while'}{_at(seen, (leaf,))}"


def _doing(seen: Seen, owner: str) -> str:
    """Say what the training thread does meanwhile, and at which line."""
    leaf = largest(seen, owner)
    if leaf is None or leaf not in DOING:
        return ""
    place = _of_python(seen, leaf) if leaf in between.OWN else _at(seen, (leaf,))
    if not seen.on_device:
        return f", mostly {DOING[leaf]}{place}"
    return f", which is mostly {DOING[leaf]}{place}"


def _of_python(seen: Seen, leaf: str) -> str:
    """Say where the thread's own code is: as it was sampled, else as windows charge it.

    A loop is one function, of all that it does: windows know no line in it, and what was sampled
    most often in it are torch's operators.
    """
    if not sampled.everything_ns(seen):
        return _at(seen, (leaf,))
    return _named(sampled.where(sampled.explaining(seen, seen.per_step(*between.OWN))))


def _at(seen: Seen, leaves: tuple[str, ...]) -> str:
    return _named(line_of_leaf(seen, leaves))


def _named(where: Where | None) -> str:
    if where is None:
        return ""
    name = where.file.replace("\\", "/").rpartition("/")[2]
    return f" ({name}:{where.line})"


def _communicates(seen: Seen) -> str:
    waits = seen.share(*ranked.WAITS)
    if waits >= MOSTLY * seen.share("comm.", "idle.comm."):
        last = [one.rank for one in seen.study.stragglers[:1]]
        whom = f"rank {last[0]}, the last to come" if last else "the last to come"
        return f"ranks wait in collectives for {whom}"
    return "goes to communication that no computing hides"


_SAYS: Final[Mapping[str, Callable[[Seen], str]]] = {
    "data": fed,
    "host": _waits_for_host,
    "sync": _synchronises,
    "copy": lambda seen: f"{who(seen)} waits for copies between host and device",
    "communication": _communicates,
    "runtime": lambda seen: _goes(seen, "runtime"),
    "io": lambda seen: _goes(seen, "io"),
    "observer": lambda _: "goes to a profiler, and not to the training",
    "step": as_a_whole,
}

_BRIEFLY: Final[Mapping[str, str]] = {
    "data": "is waiting for data",
    "host": "is spent outside operators",
    "sync": "is synchronisation",
    "copy": "is copying",
    "communication": "is communication",
    "runtime": "is memory and garbage collection",
    "io": "is evaluation, checkpoints and logging",
    "observer": "is a profiler",
    "step": "is known as a whole only",
}

# ── Computing ───────────────────────────────────────────────────────────────────────────────────


def _computes(seen: Seen, share: float, owner: str, others: Mapping[str, float]) -> str:
    """Say that a step computes, what most of that is, what else there is, what bounds it."""
    leaf = largest(seen, COMPUTE)
    mostly = "" if leaf is None or leaf not in DOING else f", mostly {of_kind(seen, leaf)}"
    parts = [f"{_shown(share)} of each step is computing{mostly}"]
    if others.get(owner, 0.0) >= _NEXT:
        words = _BRIEFLY.get(owner, "is not explained")
        if owner == "host" and seen.on_device:
            words = "is waiting for the training thread"
        parts.append(f"{_shown(others[owner])} {words}")
    if (close := near_limit(seen)) is not None:
        parts.append(close)
    return "; ".join(parts)


def _ceilings(seen: Seen, owner: str) -> tuple[str, ...]:
    """Give the ablations that would tell what an owner of time is worth at the most."""
    if seen.facts is None or seen.foreign:
        return ()
    able = {one.fix for one in listing.ceilings(seen.facts)}
    return tuple(name for name in _ABLATIONS.get(owner, ()) if name in able)
