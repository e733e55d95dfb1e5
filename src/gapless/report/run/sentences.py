"""The sentences about a recorded run: headline, steps, the whole command, what it cost."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.model.edit import short_path
from gapless.model.rhythm import UnlikeSteps
from gapless.model.run import ProcessTime, ProfilerSlowdown, RecordedRun, RunSteps
from gapless.model.study import Study
from gapless.report.sections.account import AccountSheet
from gapless.report.text.names import process_name
from gapless.report.text.numbers import count, duration, percent, span, unit_for
from gapless.report.text.text import clean

_MIN_LONG_STEP_NS: Final = 1_000_000_000  # a step: few of them are seen in the time of a check
_CHECK_STEPS: Final = 20  # such steps that a check should have time for
_MINUTE_NS: Final = 60_000_000_000
_MIN_PEER_SHARE: Final = 0.5  # of the time that the process looked at spends in steps
_NOISE_STEPS: Final = 50  # steps below which the noise is not known
PHASES: Final = {  # run leaves as they are printed, in order
    "set-up": "set-up",
    "step": "steps",
    "data": "waiting for data",
    "epoch-turn": "epoch turns",
    "evaluation": "evaluation",
    "checkpoint": "checkpoints",
    "logging": "logging",
    "profiling": "its own profiler",
    "collector": "collector",
    "observer": "this recorder",
    "unknown": "unknown",
    "tear-down": "after the last step",
}


def headline(
    study: Study, recorded: RecordedRun, sheet: AccountSheet | None, *, with_busy: bool = True
) -> str:
    """Describe in one line how many steps there were, how long, on what, and how busy it was."""
    if recorded.steps is None or sheet is None:
        return f"gapless · {_stepless_text(recorded)}"
    length = f"{sheet.unit.text(sheet.digits)} {sheet.unit.name}"
    parts = [f"{recorded.steps.count:,} steps of {length}{_device_text(study, recorded)}"]
    if recorded.steps.samples_per_s is not None:
        parts.append(f"{count(_round_rate(recorded.steps.samples_per_s))} samples/s")
    account = recorded.account
    if with_busy and account is not None and account.refined_by:
        share = percent(account.account.busy_ns() / account.account.wall_ns)
        devices = "GPUs" if (recorded.devices or 1) > 1 else "GPU"
        activity = f"the {devices} worked" if account.on_device else "operators ran"
        parts.append(f"{activity} {share} of the time")
    peers = _count_peers(recorded)
    if peers > 1:
        parts.append(f"one of {peers} processes that step")
    return f"gapless · {' · '.join(parts)}"


def _count_peers(recorded: RecordedRun) -> int:
    """Count the processes without ranks that step half as long as the one looked at, or longer."""
    leader = recorded.timeline.leading_process()
    if leader is None or leader.rank is not None:
        return 0
    stepping_ns = [
        process.steps * (process.mean_ns or 0)
        for process in recorded.timeline.processes
        if process.rank is None
    ]
    return sum(
        ns >= _MIN_PEER_SHARE * leader.steps * (leader.mean_ns or 0) > 0 for ns in stepping_ns
    )


def _round_rate(value: float) -> float:
    return round(value) if value >= 10 else round(value, 2)  # noqa: PLR2004 - three digits


def _device_text(study: Study, recorded: RecordedRun) -> str:
    """Describe on what the steps ran; nothing where that is not known."""
    ranks = len(study.run.ranks)
    ranks_text = f" on {ranks} ranks" if ranks > 1 else ""
    if recorded.devices is None:
        has_windows = recorded.account is not None and recorded.account.refined_by
        return (ranks_text or " on the CPU alone") if has_windows else ranks_text
    name = clean(recorded.device or "GPU")
    return f" on {'one' if recorded.devices == 1 else f'{recorded.devices} ×'} {name}"


def _stepless_text(recorded: RecordedRun) -> str:
    """Describe that nothing stepped, and how long the candidate processes ran."""
    processes = recorded.timeline.processes
    if not processes:
        why = next(
            (unobserved.why for unobserved in recorded.unobserved if unobserved.what == "training"),
            None,
        )
        reason = "" if why is None else f": {clean(why)}"
        return f"no process of this run stepped or loaded data{reason}"
    longest = max(process.wall_ns for process in processes)
    steps = max(process.steps for process in processes)
    if steps:
        return f"one step in {span(longest)}: there is nothing between two steps"
    was_killed = any(process.killed for process in processes)
    return f"no step {'was recorded ' if was_killed else ''}in {span(longest)}"


def run_folder(recorded: RecordedRun) -> str:
    """Return the run's folder."""
    return relative_path(recorded.life.path)


def relative_path(path: str | Path) -> str:
    """Return a path relative to the current folder if it lies below it."""
    with suppress(ValueError, OSError):  # OSError: the current folder is gone
        return clean(str(Path(path).relative_to(Path.cwd())))
    return clean(str(path))


def footing(recorded: RecordedRun, steps: RunSteps) -> str:
    """Describe what the visible sum is based on."""
    step_kind = "steps, all under a profiler" if steps.profiled_only else "un-profiled steps"
    precision = "sums exactly"
    if recorded.clock_error_ns is not None:
        precision += f", ± {duration(recorded.clock_error_ns)} clock error"
    parts = [precision, f"the mean of {steps.regular:,} {step_kind}"]
    account = recorded.account
    if account is not None and account.refined_by:
        owner = "the device" if account.on_device else "the training thread"
        source = "steps of windows" if recorded.windows else "steps that its own profiler recorded"
        parts.append(f"{owner}'s part as in {account.refined_by:,} {source}")
    return "; ".join(parts)


def steps_lines(recorded: RecordedRun, steps: RunSteps) -> Iterator[str]:
    """Describe how long steps take, how certain that is, and what ends a step."""
    unit = unit_for(steps.median_ns)
    device = steps.device_median_ns
    on_device = "" if device is None else f" · on the device {unit.fmt(device)} {unit.name}"
    yield (
        f"median {unit.fmt(steps.median_ns)} {unit.name}{_noise_text(steps)} · p10 "
        f"{unit.fmt(steps.p10_ns)} · p90 {unit.fmt(steps.p90_ns)}{on_device}"
    )
    yield f"a step ends with {clean(steps.anchor)} ({steps.count:,} steps, rule: {steps.rule})"
    if steps.noted < steps.regular:
        yield (
            f"from {steps.noted:,} of {steps.regular:,} steps noted one by one: median, p10, p90 "
            "and the p95 of waits; all else counts every step (the others are kept as sums of some "
            "seconds each, so that the recording stays small)"
        )
    if steps.noise is None and steps.noted < _NOISE_STEPS <= steps.regular:
        yield f"fewer than {_NOISE_STEPS} of them: how much they vary by chance is not known"
    elif steps.noise is None:
        is_few = steps.regular < _NOISE_STEPS
        subject = f"{steps.regular:,} steps are" if is_few else "each rank's steps are"
        yield (
            f"{subject} fewer than {_NOISE_STEPS}: how much they vary by chance is not known yet"
        )
    if steps.slowdown is not None:
        yield from _slowdown_lines(steps.slowdown)
    if steps.ahead:
        yield (
            f"left out: {steps.ahead:,} short steps in which the host only ran ahead of its device"
        )
    yield from _account_lines(recorded)


def _noise_text(steps: RunSteps) -> str:
    return "" if steps.noise is None else f" ± {percent(steps.noise)}"


def _slowdown_lines(effect: ProfilerSlowdown) -> Iterator[str]:
    unit = unit_for(effect.behind_ns)
    yield (
        f"after the first window a step takes {unit.fmt(effect.behind_ns)} {unit.name}, before it "
        f"{unit.fmt(effect.before_ns)} ({effect.count:,} steps, waits for data aside); if that "
        "is torch's profiler, which stays attached to the device's driver when it has stopped, the "
        "host's part is less without gapless"
    )


def _account_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe how run rows were joined with windows, where it matters."""
    account = recorded.account
    if account is None:
        return
    wall, steps = account.account.wall_ns, account.account.steps or 1
    if not account.refined_by:
        hint = _longer_check(recorded)
        yield f"no window was recorded: what lies within a step is not known{hint}"
    elif recorded.adopted:
        yield _adopted_text(recorded)
    if account.unlike is not None:
        yield _unlike_text(account.unlike)
    if account.host_scale is not None and account.host_scale < 0.9:  # noqa: PLR2004
        yield (
            "the profiler slows the host: outside the windows its cost is "
            f"{percent(account.host_scale)} of what they showed, and it is scaled to that"
        )
    if account.on_device and account.hidden_ns > 0 and account.hidden_ns / wall >= 0.01:  # noqa: PLR2004
        yield (
            f"{span(account.hidden_ns / steps)} a step of waiting for data cost nothing: the "
            "device had work meanwhile"
        )
    if account.excess_ns / wall >= 0.02:  # noqa: PLR2004
        yield (
            f"steps outside the windows took {span(account.excess_ns / steps)} longer than "
            "those within explain: that is unknown"
        )


def _unlike_text(rare: UnlikeSteps) -> str:
    """Describe which steps no window shows."""
    return (
        f"no window holds a step like {percent(rare.steps)} of them ({span(rare.mean_ns)} each, "
        f"waits aside): for {percent(rare.time)} of the time only sampled lines show where it went"
    )


def _longer_check(recorded: RecordedRun) -> str:
    """Describe how long a check must be for steps that were too long for it."""
    steps = recorded.steps
    if recorded.life.stopped_by != "check" or steps is None or steps.median_ns < _MIN_LONG_STEP_NS:
        return ""
    return f"; the first ends after twelve steps: gapless check --seconds {_check_s(steps)}"


def _check_s(steps: RunSteps) -> int:
    return -(-_CHECK_STEPS * steps.median_ns // _MINUTE_NS) * 60


def _adopted_text(recorded: RecordedRun) -> str:
    """Describe which files of the training's own profiler replace missing windows of ours."""
    path, n_more = relative_path(recorded.adopted[0]), len(recorded.adopted) - 1
    more_text, noun = (f" (and {n_more} more)", "traces") if n_more else ("", "trace")
    window_text = "windows and, of processes without any, " if recorded.windows else ""
    return (
        f"what lies within a step is from {window_text}the {noun} that the training's own profiler "
        f"wrote: {path}{more_text}"
    )


def command_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe where the time of the whole command went, and when the first batch and step were."""
    timeline = recorded.timeline
    if not timeline.processes:
        return
    plural = len(timeline.processes) > 1
    owner = f"{len(timeline.processes)} training processes, " if plural else ""
    together = " together" if plural else ""
    yield f"{owner}{span(timeline.wall_ns)}{together}: {phases(timeline.leaves)}"
    leading = timeline.leading_process() or timeline.processes[0]
    firsts = list(_firsts(leading))
    if firsts:
        yield f"{process_name(leading) + ': ' if plural else ''}{' · '.join(firsts)}"
    killed = sum(process.killed for process in timeline.processes)
    if killed:
        yield (
            f"{'it' if not plural else f'{killed} of them'} recorded no end (killed, or os._exit): "
            "what came after the last record is unknown"
        )


def _firsts(process: ProcessTime) -> Iterator[str]:
    if process.to_first_batch_ns is not None and process.first_batch_ns is not None:
        yield (
            f"first batch after {span(process.to_first_batch_ns)} "
            f"({span(process.first_batch_ns)} of that waiting for it)"
        )
    if process.first_step_ns is not None:
        yield f"first step done after {span(process.first_step_ns)}"


def phases(leaves: Mapping[str, int]) -> str:
    """Format run leaves with the stages of loading as one part, in the order of a run."""
    sums = {
        **leaves,
        "data": sum(ns for leaf, ns in leaves.items() if leaf.startswith("data.")),
    }
    return " · ".join(
        f"{words} {span(sums[name])}" for name, words in PHASES.items() if sums.get(name)
    )


def spent_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe what the devices drew and cost, and how much of it while they did not work."""
    energy = recorded.energy
    if energy is not None:
        idle = ""
        if energy.idle_joules is not None and energy.joules > 0:
            share = percent(energy.idle_joules / energy.joules)
            idle = f", {_energy(energy.idle_joules)} of it ({share}) while no kernel ran"
        yield f"energy {_energy(energy.joules)} ({energy.source}){idle}"
    cost = recorded.cost
    if cost is None:
        return
    if not cost.devices:
        yield "cost: no GPU was seen, so its price does not apply"
        return
    price = f"{cost.devices} GPU{'s' if cost.devices > 1 else ''} at {cost.price:g} an hour"
    if cost.idle is None or cost.idle_share is None:
        yield f"cost {cost.whole:.3g} ({price})"
    else:
        yield (
            f"cost {cost.whole:.3g} ({price}), {cost.idle:.3g} of it ({percent(cost.idle_share)}) "
            f"while no GPU worked ({cost.source})"
        )


def _energy(joules: float) -> str:
    for bound, unit in ((3.6e6, "kWh"), (1e3, "kJ")):
        if joules >= bound:
            return f"{joules / bound:.3g} {unit}"
    return f"{joules:.3g} J"


def line_lines(recorded: RecordedRun) -> Iterator[str]:
    """Return the source lines with the most samples, for each kind of thread."""
    lines_by_thread = {
        thread: [line for line in recorded.lines if line.thread == thread]
        for thread in ("training", "worker")
    }
    for words, lines in (
        ("the training thread", lines_by_thread["training"]),
        ("the package that runs the loop", recorded.trainer_lines),
        ("the workers", lines_by_thread["worker"]),
    ):
        if lines:
            line_texts = " · ".join(
                f"{clean(short_path(line.file))}:{line.line} {clean(line.function)} "
                f"{percent(line.share)}"
                for line in lines[:3]
            )
            yield f"{words}, by sampled stacks: {line_texts}"
