"""What others would say of the same records: habits, thresholds, tables, subtraction.

Each sees what gapless sees, its exact account included: what is compared is how it concludes. Rules
of other tools are written anew from what they are documented to do, and named in their docstrings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.judging.answers import Answer, Recommendation
from benchmarks.judging.causes import FAMILY_OF
from benchmarks.judging.records import WORTH, Line, Record
from gapless.model.interval import Interval
from gapless.model.seen import Seen


@dataclass(frozen=True)
class Opened:
    """A record, and what was seen of its training."""

    record: Record
    seen: Seen


Tool = Callable[[Opened], Answer]
_WORKERS: Final = Recommendation("more-workers", 8, says="num_workers=8")
_PINNED: Final = Recommendation("pin-memory", says="pin_memory=True")
_MIXED: Final = Recommendation("bf16", says="mixed precision")
_COMPILED: Final = Recommendation("compile", says="torch.compile")


def nothing(_: Opened) -> Answer:
    """Recommend nothing, ever."""
    return Answer()


def workers_and_pinning(opened: Opened) -> Answer:
    """Recommend eight workers and pinned memory, always."""
    return Answer((_WORKERS, _PINNED), constants(opened).predicted)


def mixed_and_compiled(opened: Opened) -> Answer:
    """Recommend mixed precision and compiling, always."""
    return Answer((_MIXED, _COMPILED), constants(opened).predicted)


# ── Thresholds ──────────────────────────────────────────────────────────────────────────────────

_LOADING: Final = 0.05  # of a step, in the loader: the plugin then spoke
_UNUSED: Final = 0.5  # of the time a device works: below it the plugin spoke
_TALKING: Final = 0.1  # of a step, in communication
_IDLE: Final = 0.2  # of the time a device does not work: what monitors alarm at
_WAITING: Final = 0.1  # of a step, in one kind of idle time


def plugin(opened: Opened) -> Answer:
    """Say what the withdrawn TensorBoard plugin's six recommendations would.

    Its documentation and issues tell of them: time in the loader above 5 % of the step: workers;
    a device used less than half: a bigger batch; kernels that could use tensor cores and do not:
    mixed precision; DataParallel: DDP; another backend than NCCL: NCCL; communication above 10 %:
    gradients less often or smaller. It has no order but that of its page, and predicts nothing.
    """
    seen, named = opened.seen, list[Recommendation]()
    recorded = seen.study.recorded
    loading = max((one.share or 0.0 for one in recorded.loaders), default=0.0) if recorded else 0.0
    if loading > _LOADING:
        named.append(Recommendation("more-workers", says=f"{loading:.0%} of a step in the loader"))
    if seen.on_device and _busy(seen) < _UNUSED:
        named.append(Recommendation("batch-size", says=f"the GPU works {_busy(seen):.0%}"))
    if seen.share("busy.tc_eligible_not_used") > 0:
        named.append(_MIXED)
    named += _spread(seen)
    return Answer(tuple(named))


def _spread(seen: Seen) -> Sequence[Recommendation]:
    parallel = seen.facts.parallel if seen.facts is not None else ()
    found: list[Recommendation] = []
    if any(one.kind == "data_parallel" for one in parallel):
        found.append(Recommendation("ddp", says="DataParallel"))
    if parallel and not seen.on_device:
        found.append(Recommendation("nccl", says="another backend than NCCL"))
    if seen.share("comm") > _TALKING:
        found.append(Recommendation("no-sync", says="communication"))
    return found


def idle_breakdown(opened: Opened) -> Answer:
    """Say what follows from idle time parted as HTA does: waiting for the host, between kernels.

    Read as people do: a device that waits for its host wants data sooner, then fewer launches; one
    that waits between kernels wants fewer of them. Nothing is said of a training without a device.
    """
    seen = opened.seen
    if not seen.on_device:
        return Answer(refused="there is no device")
    between = seen.share("idle.device")
    host = seen.share("idle") - between
    named: tuple[Recommendation, ...] = ()
    if host > _WAITING:
        named += (Recommendation("more-workers", says=f"host wait {host:.0%}"), _COMPILED)
    if between > _WAITING:
        named += (Recommendation("fused", says=f"kernel wait {between:.0%}"),)
    return Answer(named)


def threshold(opened: Opened) -> Answer:
    """Say what a monitor of idle GPUs says: idle above 20 % is the fault of the input pipeline."""
    seen = opened.seen
    if not seen.on_device:
        return Answer(refused="there is no device")
    return Answer((_WORKERS, _PINNED) if 1 - _busy(seen) > _IDLE else ())


def _busy(seen: Seen) -> float:
    return seen.share("busy", "copy", "comm")


# ── Tables and subtraction ──────────────────────────────────────────────────────────────────────

# Round figures as blog posts and tuning guides give them.
_USUAL: Final[Mapping[str, float]] = {
    "more-workers": 2.0,
    "workers-and-one-thread": 2.0,
    "bf16": 1.7,
    "tf32": 1.5,
    "compile": 1.4,
    "checkpointing-off": 1.25,
    "channels-last": 1.2,
    "cudnn-benchmark": 1.1,
    "persistent-workers": 1.1,
    "device-prefetcher": 1.1,
    "no-synchronize": 1.1,
    "no-empty-cache": 1.1,
    "debug-off": 1.2,
    "no-sync": 1.2,
    "fused": 1.05,
    "foreach": 1.05,
    "pin-memory": 1.05,
    "prefetch": 1.05,
    "worker-threads": 1.1,
    "intra-op-threads": 1.1,
}


def constants(opened: Opened) -> Answer:
    """Recommend by a table of constant gains what can be done, the largest first."""
    facts = opened.seen.facts
    loaders = bool(facts is not None and facts.loaders)
    able = [
        name
        for name in _USUAL
        if (loaders or FAMILY_OF[name] not in {"feed", "copy"})
        and (opened.seen.on_device or FAMILY_OF[name] not in {"kernel", "copy"})
    ]
    named = [Recommendation(one, speedup=_point(_USUAL[one])) for one in able]
    named.sort(key=lambda one: -_USUAL[one.fix or ""])
    predicted = {
        line.name: _point(_USUAL[line.fix])
        for line in opened.record.lines
        if line.fix is not None and line.fix in _USUAL
    }
    return Answer(tuple(named), predicted)


_OF_FIX: Final[Mapping[str, tuple[str, ...]]] = {
    "more-workers": ("idle.data",),
    "workers-and-one-thread": ("idle.data",),
    "cached-batch": ("idle.data",),
    "prefetch": ("idle.data",),
    "out-of-order": ("idle.data",),
    "worker-threads": ("idle.data",),
    "persistent-workers": ("idle.data.start-up",),
    "pin-memory": ("copy.h2d.pageable", "idle.h2d.host"),
    "non-blocking": ("idle.h2d.host",),
    "device-prefetcher": ("copy.h2d", "idle.h2d.host"),
    "no-synchronize": ("idle.sync",),
    "no-empty-cache": ("idle.alloc",),
    "fused": ("idle.host.optimizer",),
    "foreach": ("idle.host.optimizer",),
    "debug-off": ("idle.host.python", "idle.host.unframed"),
    "compile": ("idle.host", "idle.launch"),
    "channels-last": ("busy.layout",),
    "collector": ("idle.gc",),
    "no-checkpoint": ("idle.io_main.checkpoint",),
    "no-logging": ("idle.io_main.logging",),
    "no-evaluation": ("idle.io_main.eval",),
    "no-sync": ("comm.exposed", "idle.comm"),
}
_OF_CAUSE: Final[Mapping[str, tuple[str, ...]]] = {
    "reading": ("idle.data",),
    "making samples": ("idle.data",),
    "slow samples": ("idle.data",),
    "collating": ("idle.data",),
    "threads": ("idle.data",),
    "synchronising": ("idle.sync",),
    "Python in the step": ("idle.host.python", "idle.host.unframed"),
    "hooks": ("idle.host.python", "idle.host.unframed"),
    "debugging": ("idle.host.python", "idle.host.unframed"),
    "logging": ("idle.io_main.logging",),
    "checkpoints": ("idle.io_main.checkpoint",),
    "evaluation": ("idle.io_main.eval",),
    "averaging weights": ("idle.host.python",),
    "clipping": ("busy.gradclip_scaler",),
    "collecting": ("idle.gc",),
    "allocating": ("idle.alloc",),
    "reducing too often": ("comm.exposed", "idle.comm"),
    "a slow rank": ("comm.straggler_wait",),
}
_COMPUTE: Final = ("busy.tc_math", "busy.tc_eligible_not_used", "busy.math")
_MEMORY: Final = ("busy.elementwise", "busy.norm_reduce", "busy.cast", "busy.layout")
# Daydream's constants for lower precision: a third where arithmetic limits, half where memory does.
_PRECISION: Final[Mapping[str, Mapping[tuple[str, ...], float]]] = {
    "bf16": {_COMPUTE: 1 / 3, _MEMORY: 1 / 2},
    "fp16": {_COMPUTE: 1 / 3, _MEMORY: 1 / 2},
    "tf32": {("busy.tc_eligible_not_used",): 1 / 3},
}
_MOST_GONE: Final = 0.98


def subtraction(opened: Opened) -> Answer:
    """Recommend what takes off most of the step, the cause's leaves taken for nought (Amdahl)."""
    seen = opened.seen
    fixes: dict[object, str] = {}  # the first of those that are about the same leaves
    for fix, leaves in _OF_FIX.items():
        if fix not in _ABLATIONS:
            fixes.setdefault(leaves, fix)
    fixes |= {fix: fix for fix in _PRECISION}
    causes: dict[object, frozenset[str]] = {}
    for cause, leaves in _OF_CAUSE.items():
        causes[leaves] = causes.get(leaves, frozenset()) | {cause}
    named: list[Recommendation] = []
    for key in dict.fromkeys((*fixes, *causes)):
        fix, about = fixes.get(key), causes.get(key, frozenset[str]())
        gain = _without(seen, fix, about if fix is None else frozenset())
        if gain is not None and gain > 1 + WORTH:
            named.append(Recommendation(fix, causes=about, speedup=_point(gain)))
    named.sort(key=lambda one: -(one.speedup.mid if one.speedup else 1.0))
    return Answer(tuple(named), _subtracted(seen, opened.record.lines))


_ABLATIONS: Final = frozenset({"cached-batch", "no-checkpoint", "no-logging", "no-evaluation"})


def _subtracted(seen: Seen, lines: Sequence[Line]) -> dict[str, Interval]:
    found: dict[str, Interval] = {}
    for line in lines:
        causes = line.causes if line.fix is None else frozenset[str]()
        gain = _without(seen, line.fix, causes)
        if gain is not None:
            found[line.name] = _point(gain)
    return found


def _without(seen: Seen, fix: str | None, causes: frozenset[str]) -> float | None:
    """Give the speed-up if what a fix or some causes are about took no time."""
    factors = dict(_PRECISION.get(fix or "", {}))
    if not factors:
        leaves = _OF_FIX.get(fix or "", ()) + tuple(
            leaf for one in sorted(causes) for leaf in _OF_CAUSE.get(one, ())
        )
        if not leaves:
            return None
        factors = {tuple(dict.fromkeys(leaves)): 0.0}
    gone = sum(seen.share(*leaves) * (1 - factor) for leaves, factor in factors.items())
    return 1 / (1 - min(_MOST_GONE, gone))


def _point(speedup: float) -> Interval:
    return Interval(speedup, speedup, speedup)


BASELINES: Final[Mapping[str, Tool]] = {
    "nothing": nothing,
    "always 8 workers and pinning": workers_and_pinning,
    "always AMP and compile": mixed_and_compiled,
    "TensorBoard plugin (withdrawn)": plugin,
    "idle breakdown, as HTA parts it": idle_breakdown,
    "GPU idle above 20 %": threshold,
    "table of constant gains": constants,
    "subtraction (Amdahl), AMP ÷3 and ÷2": subtraction,
}
