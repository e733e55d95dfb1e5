"""The sentences about a recorded run: headline, steps, the whole command, what it cost."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gapless.model.rhythm import Unlike
from gapless.model.run import ProcessTime, Recorded, RunSteps, Slowed
from gapless.model.study import Study
from gapless.report.account import Sheet
from gapless.report.names import process_name
from gapless.report.numbers import count, duration, percent, span, unit_for
from gapless.report.text import clean

_LONG_NS: Final = 1_000_000_000  # a step: few of them are seen in the time of a check
_CHECKED: Final = 20  # such steps that a check should have time for
_MINUTE_NS: Final = 60_000_000_000
_PROVISIONAL: Final = 50  # steps below which the noise is not known
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


def headline(study: Study, recorded: Recorded, laid: Sheet | None, *, busy: bool = True) -> str:
    """Say in one line how many steps there were, how long, on what, and how much it worked."""
    if recorded.steps is None or laid is None:
        return f"gapless · {_stepless(recorded)}"
    length = f"{laid.unit.text(laid.digits)} {laid.unit.name}"
    parts = [f"{recorded.steps.count:,} steps of {length}{_place(study, recorded)}"]
    if recorded.steps.samples_per_s is not None:
        parts.append(f"{count(_rounded(recorded.steps.samples_per_s))} samples/s")
    account = recorded.account
    if busy and account is not None and account.refined_by:
        share = percent(account.account.busy_ns() / account.account.wall_ns)
        many = "GPUs" if (recorded.devices or 1) > 1 else "GPU"
        who = f"the {many} worked" if account.on_device else "operators ran"
        parts.append(f"{who} {share} of the time")
    return f"gapless · {' · '.join(parts)}"


def _rounded(value: float) -> float:
    return round(value) if value >= 10 else round(value, 2)  # noqa: PLR2004 - three digits


def _place(study: Study, recorded: Recorded) -> str:
    """Say on what the steps ran; nothing where that is not known."""
    ranks = len(study.run.ranks)
    spread = f" on {ranks} ranks" if ranks > 1 else ""
    if recorded.devices is None:
        seen = recorded.account is not None and recorded.account.refined_by
        return (spread or " on the CPU alone") if seen else spread
    name = clean(recorded.device or "GPU")
    return f" on {'one' if recorded.devices == 1 else f'{recorded.devices} ×'} {name}"


def _stepless(recorded: Recorded) -> str:
    """Say that nothing stepped, and how long the processes that might have ran."""
    processes = recorded.timeline.processes
    if not processes:
        why = next((one.why for one in recorded.unseen if one.what == "training"), None)
        seen = "" if why is None else f": {clean(why)}"
        return f"no process of this run stepped or loaded data{seen}"
    longest = max(one.wall_ns for one in processes)
    steps = max(one.steps for one in processes)
    if steps:
        return f"one step in {span(longest)}: there is nothing between two steps"
    killed = any(one.killed for one in processes)
    return f"no step {'was recorded ' if killed else ''}in {span(longest)}"


def place_of(recorded: Recorded) -> str:
    """Give the run's folder."""
    return from_here(recorded.life.path)


def from_here(path: str) -> str:
    """Name a path from the current folder if it lies below it."""
    here, place = Path.cwd(), Path(path)
    return clean(str(place.relative_to(here) if place.is_relative_to(here) else place))


def footing(recorded: Recorded, steps: RunSteps) -> str:
    """Say what the visible sum rests on."""
    kind = "steps, all under a profiler" if steps.profiled_only else "un-profiled steps"
    sure = "sums exactly"
    if recorded.clock_error_ns is not None:
        sure += f", ± {duration(recorded.clock_error_ns)} clock error"
    parts = [sure, f"the mean of {steps.regular:,} {kind}"]
    account = recorded.account
    if account is not None and account.refined_by:
        what = "the device" if account.on_device else "the training thread"
        where = "steps of windows" if recorded.windows else "steps that its own profiler recorded"
        parts.append(f"{what}'s part as in {account.refined_by:,} {where}")
    return "; ".join(parts)


def steps_lines(recorded: Recorded, steps: RunSteps) -> Iterator[str]:
    """Say how long steps take, how sure that is, and what ends a step."""
    unit = unit_for(steps.median_ns)
    device = steps.device_median_ns
    on_device = "" if device is None else f" · on the device {unit.of(device)} {unit.name}"
    yield (
        f"median {unit.of(steps.median_ns)} {unit.name}{_noise(steps)} · p10 "
        f"{unit.of(steps.p10_ns)} · p90 {unit.of(steps.p90_ns)}{on_device}"
    )
    yield f"a step ends with {clean(steps.anchor)} ({steps.count:,} steps, rule: {steps.rule})"
    if steps.noted < steps.regular:
        yield (
            f"from {steps.noted:,} of {steps.regular:,} steps noted one by one: median, p10, p90 "
            "and the p95 of waits; all else counts every step (the others are kept as sums of some "
            "seconds each, so that the recording stays small)"
        )
    if steps.noise is None and steps.noted < _PROVISIONAL <= steps.regular:
        yield f"fewer than {_PROVISIONAL} of them: how much they vary by chance is not known"
    elif steps.noise is None:
        many = steps.regular < _PROVISIONAL
        few = f"{steps.regular:,} steps are" if many else "each rank's steps are"
        yield (f"{few} fewer than {_PROVISIONAL}: how much they vary by chance is not known yet")
    if steps.slowed is not None:
        yield from _slowed(steps.slowed)
    if steps.ahead:
        yield (
            f"left out: {steps.ahead:,} short steps in which the host only ran ahead of its device"
        )
    yield from _joined(recorded)


def _noise(steps: RunSteps) -> str:
    return "" if steps.noise is None else f" ± {percent(steps.noise)}"


def _slowed(found: Slowed) -> Iterator[str]:
    unit = unit_for(found.behind_ns)
    yield (
        f"behind the first window a step takes {unit.of(found.behind_ns)} {unit.name}, before it "
        f"{unit.of(found.before_ns)} ({found.count:,} steps, waits for data aside); if that "
        "is torch's profiler, which stays attached to the device's driver when it has stopped, the "
        "host's part is less without gapless"
    )


def _joined(recorded: Recorded) -> Iterator[str]:
    """Say what was done to join run rows with windows, where it matters."""
    account = recorded.account
    if account is None:
        return
    wall, steps = account.account.wall_ns, account.account.steps or 1
    if not account.refined_by:
        yield f"no window was recorded: what lies within a step is not known{_longer(recorded)}"
    elif recorded.adopted:
        yield _adopted(recorded)
    if account.unlike is not None:
        yield _unlike(account.unlike)
    if account.host_scale is not None and account.host_scale < 0.9:  # noqa: PLR2004
        yield (
            "the profiler slows the host: outside the windows what it costs is "
            f"{percent(account.host_scale)} of what they showed, and is scaled to that"
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


def _unlike(some: Unlike) -> str:
    """Say of which steps no window tells anything."""
    return (
        f"no window holds a step like {percent(some.steps)} of them ({span(some.mean_ns)} each, "
        f"waits aside): of {percent(some.time)} of the time only sampled lines tell what it went to"
    )


def _longer(recorded: Recorded) -> str:
    """Say how long a check has to be whose steps were too long for it."""
    steps = recorded.steps
    if recorded.life.stopped_by != "check" or steps is None or steps.median_ns < _LONG_NS:
        return ""
    return f"; the first ends after twelve steps: gapless check --seconds {_check_s(steps)}"


def _check_s(steps: RunSteps) -> int:
    return -(-_CHECKED * steps.median_ns // _MINUTE_NS) * 60


def _adopted(recorded: Recorded) -> str:
    """Say which files of the training's own profiler stand where there is no window of ours."""
    which, more = from_here(recorded.adopted[0]), len(recorded.adopted) - 1
    many, what = (f" (and {more} more)", "traces") if more else ("", "trace")
    where = "windows and, of processes without any, " if recorded.windows else ""
    return (
        f"what lies within a step is from {where}the {what} that the training's own profiler "
        f"wrote: {which}{many}"
    )


def command_lines(recorded: Recorded) -> Iterator[str]:
    """Say where the time of the whole command went, and when the first batch and step were."""
    line = recorded.timeline
    if not line.processes:
        return
    several = len(line.processes) > 1
    whose = f"{len(line.processes)} training processes, " if several else ""
    yield f"{whose}{span(line.wall_ns)}{' together' if several else ''}: {phases(line.leaves)}"
    first = line.leading() or line.processes[0]
    told = list(_firsts(first))
    if told:
        yield f"{process_name(first) + ': ' if several else ''}{' · '.join(told)}"
    killed = sum(one.killed for one in line.processes)
    if killed:
        yield (
            f"{'it' if not several else f'{killed} of them'} wrote no end (killed, or os._exit): "
            "what came after the last record is unknown"
        )


def _firsts(one: ProcessTime) -> Iterator[str]:
    if one.to_first_batch_ns is not None and one.first_batch_ns is not None:
        yield (
            f"first batch after {span(one.to_first_batch_ns)} ({span(one.first_batch_ns)} of that "
            "waiting for it)"
        )
    if one.first_step_ns is not None:
        yield f"first step done after {span(one.first_step_ns)}"


def phases(leaves: Mapping[str, int]) -> str:
    """Print run leaves with the stages of loading as one part, in the order of a run."""
    sums = {
        **leaves,
        "data": sum(ns for leaf, ns in leaves.items() if leaf.startswith("data.")),
    }
    return " · ".join(
        f"{words} {span(sums[name])}" for name, words in PHASES.items() if sums.get(name)
    )


def spent_lines(recorded: Recorded) -> Iterator[str]:
    """Say what the devices drew and cost, and how much of it while they did not work."""
    drawn = recorded.energy
    if drawn is not None:
        idle = ""
        if drawn.idle_joules is not None and drawn.joules > 0:
            share = percent(drawn.idle_joules / drawn.joules)
            idle = f", {_energy(drawn.idle_joules)} of it ({share}) while no kernel ran"
        yield f"energy {_energy(drawn.joules)} ({drawn.source}){idle}"
    cost = recorded.cost
    if cost is None:
        return
    if not cost.devices:
        yield "cost: no GPU was seen, so the price of one says nothing"
        return
    many = f"{cost.devices} GPU{'s' if cost.devices > 1 else ''} at {cost.price:g} an hour"
    if cost.idle is None or cost.idle_share is None:
        yield f"cost {cost.whole:.3g} ({many})"
    else:
        yield (
            f"cost {cost.whole:.3g} ({many}), {cost.idle:.3g} of it ({percent(cost.idle_share)}) "
            f"while no GPU worked ({cost.source})"
        )


def _energy(joules: float) -> str:
    for least, unit in ((3.6e6, "kWh"), (1e3, "kJ")):
        if joules >= least:
            return f"{joules / least:.3g} {unit}"
    return f"{joules:.3g} J"


def line_lines(recorded: Recorded) -> Iterator[str]:
    """Give the lines of source in which the most samples stood, of each kind of thread."""
    for thread, words in (("training", "the training thread"), ("worker", "the workers")):
        own = [one for one in recorded.lines if one.thread == thread][:3]
        if own:
            shown = " · ".join(
                f"{_short(one.file)}:{one.line} {clean(one.function)} {percent(one.share)}"
                for one in own
            )
            yield f"{words}, by sampled stacks: {shown}"


def _short(file: str) -> str:
    return clean(file.replace("\\", "/").rpartition("/")[2])
