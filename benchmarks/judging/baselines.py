"""What others would say of the same records: habits, thresholds, tables, subtraction.

Each sees what gapless sees, its exact account included: what is compared is how it concludes. Rules
of other tools are written anew from what they are documented to do, and named in their docstrings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.judging.answers import Answer, Recommendation
from benchmarks.judging.causes import FAMILY_OF
from benchmarks.judging.records import MIN_GAIN, MenuLine, Record
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence


@dataclass(frozen=True)
class OpenedRecord:
    """A record, and what was seen of its training."""

    record: Record
    evidence: Evidence


Tool = Callable[[OpenedRecord], Answer]
_WORKERS: Final = Recommendation("more-workers", 8, says="num_workers=8")
_PINNED: Final = Recommendation("pin-memory", says="pin_memory=True")
_MIXED: Final = Recommendation("bf16", says="mixed precision")
_COMPILED: Final = Recommendation("compile", says="torch.compile")


def nothing(_: OpenedRecord) -> Answer:
    """Recommend nothing, ever."""
    return Answer()


def workers_and_pinning(subject: OpenedRecord) -> Answer:
    """Recommend eight workers and pinned memory, always."""
    return Answer((_WORKERS, _PINNED), constants(subject).predicted)


def mixed_and_compiled(subject: OpenedRecord) -> Answer:
    """Recommend mixed precision and compiling, always."""
    return Answer((_MIXED, _COMPILED), constants(subject).predicted)


# ── Thresholds ──────────────────────────────────────────────────────────────────────────────────

_MAX_LOADING_SHARE: Final = 0.05  # of a step, in the loader: the plugin then spoke
_MIN_BUSY_SHARE: Final = 0.5  # of the time a device works: below it the plugin spoke
_MAX_COMM_SHARE: Final = 0.1  # of a step, in communication
_MAX_IDLE_SHARE: Final = 0.2  # of the time a device does not work: what monitors alarm at
_MAX_WAIT_SHARE: Final = 0.1  # of a step, in one kind of idle time


def plugin(subject: OpenedRecord) -> Answer:
    """Say what the withdrawn TensorBoard plugin's six recommendations would.

    Its documentation and issues tell of them: time in the loader above 5 % of the step: workers;
    a device used less than half: a bigger batch; kernels that could use tensor cores and do not:
    mixed precision; DataParallel: DDP; another backend than NCCL: NCCL; communication above 10 %:
    gradients less often or smaller. It has no order but that of its page, and predicts nothing.
    """
    evidence, recommendations = subject.evidence, list[Recommendation]()
    recorded = evidence.study.recorded
    loading_share = (
        max((loader.share or 0.0 for loader in recorded.loaders), default=0.0) if recorded else 0.0
    )
    if loading_share > _MAX_LOADING_SHARE:
        recommendations.append(
            Recommendation("more-workers", says=f"{loading_share:.0%} of a step in the loader")
        )
    if evidence.on_device and _busy_share(evidence) < _MIN_BUSY_SHARE:
        recommendations.append(
            Recommendation("batch-size", says=f"the GPU works {_busy_share(evidence):.0%}")
        )
    if evidence.share("busy.tc_eligible_not_used") > 0:
        recommendations.append(_MIXED)
    recommendations += _recommend_parallel(evidence)
    return Answer(tuple(recommendations))


def _recommend_parallel(evidence: Evidence) -> Sequence[Recommendation]:
    parallel = evidence.facts.parallel
    recommendations: list[Recommendation] = []
    if any(wrapper.kind == "data_parallel" for wrapper in parallel):
        recommendations.append(Recommendation("ddp", says="DataParallel"))
    if parallel and not evidence.on_device:
        recommendations.append(Recommendation("nccl", says="another backend than NCCL"))
    if evidence.share("comm") > _MAX_COMM_SHARE:
        recommendations.append(Recommendation("no-sync", says="communication"))
    return recommendations


def idle_breakdown(subject: OpenedRecord) -> Answer:
    """Say what follows from idle time parted as HTA does: waiting for the host, between kernels.

    Read as people do: a device that waits for its host wants data sooner, then fewer launches; one
    that waits between kernels wants fewer of them. Nothing is said of a training without a device.
    """
    evidence = subject.evidence
    if not evidence.on_device:
        return Answer(refused="there is no device")
    between_kernels = evidence.share("idle.device")
    host = evidence.share("idle") - between_kernels
    recommendations: tuple[Recommendation, ...] = ()
    if host > _MAX_WAIT_SHARE:
        recommendations += (Recommendation("more-workers", says=f"host wait {host:.0%}"), _COMPILED)
    if between_kernels > _MAX_WAIT_SHARE:
        recommendations += (Recommendation("fused", says=f"kernel wait {between_kernels:.0%}"),)
    return Answer(recommendations)


def threshold(subject: OpenedRecord) -> Answer:
    """Say what a monitor of idle GPUs says: idle above 20 % is the fault of the input pipeline."""
    evidence = subject.evidence
    if not evidence.on_device:
        return Answer(refused="there is no device")
    return Answer((_WORKERS, _PINNED) if 1 - _busy_share(evidence) > _MAX_IDLE_SHARE else ())


def _busy_share(evidence: Evidence) -> float:
    return evidence.share("busy", "copy", "comm")


# ── Tables and subtraction ──────────────────────────────────────────────────────────────────────

# Round figures as blog posts and tuning guides give them.
_USUAL_GAINS: Final[Mapping[str, float]] = {
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


def constants(subject: OpenedRecord) -> Answer:
    """Recommend by a table of constant gains what can be done, the largest first."""
    loaders = bool(subject.evidence.facts.loaders)
    applicable = [
        name
        for name in _USUAL_GAINS
        if (loaders or FAMILY_OF[name] not in {"feed", "copy"})
        and (subject.evidence.on_device or FAMILY_OF[name] not in {"kernel", "copy"})
    ]
    recommendations = [
        Recommendation(fix, speedup=_exactly(_USUAL_GAINS[fix])) for fix in applicable
    ]
    recommendations.sort(key=lambda recommendation: -_USUAL_GAINS[recommendation.fix or ""])
    predictions = {
        line.name: _exactly(_USUAL_GAINS[line.fix])
        for line in subject.record.lines
        if line.fix is not None and line.fix in _USUAL_GAINS
    }
    return Answer(tuple(recommendations), predictions)


_LEAVES_OF_FIX: Final[Mapping[str, tuple[str, ...]]] = {
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
_LEAVES_OF_CAUSE: Final[Mapping[str, tuple[str, ...]]] = {
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
_MAX_REMOVED_SHARE: Final = 0.98


def subtraction(subject: OpenedRecord) -> Answer:
    """Recommend what takes off most of the step, the cause's leaves taken for nought (Amdahl)."""
    evidence = subject.evidence
    fixes: dict[object, str] = {}  # the first of those that are about the same leaves
    for fix, leaves in _LEAVES_OF_FIX.items():
        if fix not in _ABLATIONS:
            fixes.setdefault(leaves, fix)
    fixes |= {fix: fix for fix in _PRECISION}
    causes: dict[object, frozenset[str]] = {}
    for cause, leaves in _LEAVES_OF_CAUSE.items():
        causes[leaves] = causes.get(leaves, frozenset()) | {cause}
    recommendations: list[Recommendation] = []
    for key in dict.fromkeys((*fixes, *causes)):
        fix, reasons = fixes.get(key), causes.get(key, frozenset[str]())
        gain = _speedup_without(evidence, fix, reasons if fix is None else frozenset())
        if gain is not None and gain > 1 + MIN_GAIN:
            recommendations.append(Recommendation(fix, causes=reasons, speedup=_exactly(gain)))
    recommendations.sort(
        key=lambda recommendation: -(recommendation.speedup.mid if recommendation.speedup else 1.0)
    )
    return Answer(tuple(recommendations), _subtract_lines(evidence, subject.record.lines))


_ABLATIONS: Final = frozenset({"cached-batch", "no-checkpoint", "no-logging", "no-evaluation"})


def _subtract_lines(evidence: Evidence, lines: Sequence[MenuLine]) -> dict[str, Estimate]:
    speedups: dict[str, Estimate] = {}
    for line in lines:
        causes = line.causes if line.fix is None else frozenset[str]()
        gain = _speedup_without(evidence, line.fix, causes)
        if gain is not None:
            speedups[line.name] = _exactly(gain)
    return speedups


def _speedup_without(evidence: Evidence, fix: str | None, causes: frozenset[str]) -> float | None:
    """Return the speed-up if what a fix or some causes are about took no time."""
    factors = dict(_PRECISION.get(fix or "", {}))
    if not factors:
        leaves = _LEAVES_OF_FIX.get(fix or "", ()) + tuple(
            leaf for cause in sorted(causes) for leaf in _LEAVES_OF_CAUSE.get(cause, ())
        )
        if not leaves:
            return None
        factors = {tuple(dict.fromkeys(leaves)): 0.0}
    removed = sum(evidence.share(*leaves) * (1 - factor) for leaves, factor in factors.items())
    return 1 / (1 - min(_MAX_REMOVED_SHARE, removed))


def _exactly(speedup: float) -> Estimate:
    return Estimate(speedup, speedup, speedup)


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
