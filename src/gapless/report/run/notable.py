"""What is notable about a run before its account: other users of the machine, a slow start."""

from collections.abc import Iterator
from typing import Final

from gapless.model.rhythm import Phase
from gapless.model.run import LoaderUse, ProcessTime, RecordedRun, RunSteps
from gapless.model.study import Study
from gapless.report.sections.causes import sharing_command
from gapless.report.text.numbers import percent, span, unit_for
from gapless.report.text.text import clean

# of the processors: a smaller use by others is shown only in the machine's series
_MIN_FOREIGN: Final = 0.1
_MIN_STOLEN_SHARE: Final = 0.02
_MIN_NOISE: Final = 0.25  # of the usual step: its own uncertainty
_MIN_SPREAD_RATIO: Final = 3  # times as long: steps of more than one kind
_MIN_HEAP_SHARE: Final = 0.05  # of the step, by which a window changed it
_SLOW_RATIO: Final = 10  # times what is usual
_MIN_LIFE_SHARE: Final = 0.2  # of the life of the process
_MIN_FIRST_STEP_NS: Final = 1e10  # ns: imports and a device take seconds
_MIN_WAIT_SHARE: Final = 0.5  # of the waits for a loader
_MAX_NAMED: Final = 3  # optimizers, loaders that are named


def notable_lines(study: Study) -> Iterator[str]:
    """Return what a reader must know of a recorded run before its account."""
    recorded = study.recorded
    if recorded is None:
        return
    yield from _contention_lines(recorded, sharing_command(study))
    yield from _heap_lines(recorded)
    if recorded.steps is not None:
        yield from _pass_lines(recorded.steps)
    phases = tuple(phase_lines(recorded))
    yield from phases or _variation_lines(recorded)
    leading = recorded.timeline.leading_process()
    if leading is not None:
        yield from _first_step_lines(leading, recorded)
    for loader in recorded.loaders[:1]:
        yield from _first_batches(loader)


def _pass_lines(steps: RunSteps) -> Iterator[str]:
    """Describe what a step of the optimizer is, where each backward pass ends a step."""
    if steps.passes is None:
        return
    share = steps.update_ns / (steps.passes * steps.mean_ns)
    yield (
        f"a step here is one backward pass: {steps.passes:,} of them make a step of the optimizer, "
        f"which is too long to be recorded whole; its own call takes {span(steps.update_ns)} of it "
        f"({percent(share)})"
    )


def _contention_lines(recorded: RecordedRun, command: str | None = None) -> Iterator[str]:
    """Describe how much of the processors others used, and what may help against it."""
    contention = recorded.contention
    if contention is None or not contention.processors:
        return
    processors = contention.processors
    uses = [
        f"{words} {cores:.2g} of {processors} processors ({percent(cores / processors)})"
        for words, cores, min_share in (
            ("other processes took", contention.cores, _MIN_FOREIGN),
            ("the hypervisor gave away", contention.stolen or 0.0, _MIN_STOLEN_SHARE),
        )
        if cores / processors >= min_share
    ]
    if uses:
        yield (
            f"not alone: {', '.join(uses)} on average; what ran on the CPU may be slower here than "
            + ("it has to be" if command is None else f"with fewer threads: {command}")
        )


def _heap_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe how a window changed what the C library keeps of the training's memory."""
    faults = recorded.page_faults
    if faults is None or faults.since_window is None:
        return
    changed_ns = (faults.since_window - faults.count) * faults.fault_ns
    if abs(changed_ns) < _MIN_HEAP_SHARE * faults.step_ns:
        return
    words = "less" if changed_ns < 0 else "more"
    yield (
        f"the recording changed the training: since its first window a step has "
        f"{faults.since_window:,.0f} page faults, before it {faults.count:,.0f} (about "
        f"{span(abs(changed_ns))} a step {words}); what a profiler leaves on the heap may change "
        "what the C library keeps"
    )


def _variation_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe how steps vary, and whether the machine or the training causes it."""
    steps = recorded.steps
    if steps is None:
        return
    noise = steps.noise or 0.0
    if noise < _MIN_NOISE and steps.p90_ns < _MIN_SPREAD_RATIO * steps.p10_ns:
        return
    unit = unit_for(steps.p90_ns)
    lengths = f"{unit.fmt(steps.p10_ns)} to {unit.fmt(steps.p90_ns)} {unit.name} (p10, p90)"
    if any(True for _ in _contention_lines(recorded)) or _is_contended(recorded):
        yield f"steps take {lengths}, while others used the machine, too: gains are rough"
    elif recorded.contention is None:
        yield f"steps take {lengths}: whether others used the machine meanwhile was not recorded"
    else:
        yield (
            f"steps take {lengths}, and nothing else used the machine: they differ by themselves "
            f"({_variation_reason(recorded)})"
        )


def phase_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe the phases in order, unless the largest one is nearly everything."""
    steps = recorded.steps
    if steps is None or not steps.phases:
        return
    total_ns = sum(phase.wall_ns for phase in steps.phases)
    if max(phase.wall_ns for phase in steps.phases) > (1 - _MIN_LIFE_SHARE) * total_ns:
        return
    texts = [
        f"{phase.count:,} steps{_usual_step(phase)} ({clean(phase.anchor)})"
        for phase in steps.phases[:_MAX_NAMED]
    ]
    n_hidden = len(steps.phases) - _MAX_NAMED
    suffix = f", then {n_hidden} more" if n_hidden > 0 else ""
    yield f"{len(steps.phases)} phases: {', then '.join(texts)}{suffix}; other figures are of all"


def _usual_step(phase: Phase) -> str:
    """Return the usual step of a phase."""
    return "" if phase.median_ns is None else f" of {span(phase.median_ns)}"


def _variation_reason(recorded: RecordedRun) -> str:
    """Describe what steps of one training usually differ in."""
    account = None if recorded.account is None else recorded.account.account
    if account is not None and account.groups.get("data", 0) >= _MIN_LIFE_SHARE * account.wall_ns:
        return "by how long they wait for data, at least"
    return "lengths of samples or episodes, steps of several kinds"


def _is_contended(recorded: RecordedRun) -> bool:
    """Return whether others computed on a device, or something held its clock back."""
    devices = recorded.devices_seen
    return any(
        (device.others or 0.0) >= _MIN_FOREIGN
        or any(share >= _MIN_FOREIGN for share in device.held.values())
        for device in devices
    )


def _first_step_lines(process: ProcessTime, recorded: RecordedRun) -> Iterator[str]:
    """Describe a late first step, and how long of that was its first batch."""
    first_step_ns, steps = process.first_step_ns, recorded.steps
    if first_step_ns is None:
        yield from _stepless_lines(process)
        return
    if steps is None or first_step_ns < max(_MIN_FIRST_STEP_NS, _MIN_LIFE_SHARE * process.wall_ns):
        return
    if first_step_ns < _SLOW_RATIO * steps.median_ns:
        return
    share = percent(first_step_ns / process.wall_ns)
    batch_ns = process.first_batch_ns or 0
    wait_clause = (
        f"; {span(batch_ns)} of that it waited for the first batch"
        if batch_ns >= _MIN_LIFE_SHARE * first_step_ns
        else ""
    )
    yield f"the first step was done after {span(first_step_ns)}, {share} of the whole{wait_clause}"


def _stepless_lines(process: ProcessTime) -> Iterator[str]:
    """Describe how long a process that never stepped waited for data."""
    wait_ns = sum(ns for leaf, ns in process.leaves.items() if leaf.startswith("data."))
    if wait_ns >= _MIN_LIFE_SHARE * process.wall_ns:
        no_batch = ", and no batch came" if process.to_first_batch_ns is None else ""
        yield f"{span(wait_ns)} of {span(process.wall_ns)} it waited for data{no_batch}"


def _first_batches(use: LoaderUse) -> Iterator[str]:
    """Describe a loader that was waited for mainly at the start of its iterations."""
    if use.first_ns is None or use.iterations < 2 or (use.share or 0.0) < _MIN_FOREIGN:  # noqa: PLR2004
        return
    share = use.first_ns * use.iterations / max(1, use.wait_ns)
    if share >= _MIN_WAIT_SHARE and use.first_ns * use.waits >= _SLOW_RATIO * use.wait_ns:
        yield (
            f"{_name(use)}: the first batch of an iteration takes {span(use.first_ns)} (the mean "
            f"of {use.iterations:,}), {percent(min(1.0, share))} of all waiting for this loader"
        )


def optimizer_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe the optimizers besides the one that ends a step."""
    optimizer_texts = [
        f"{clean(use.name)}.step{_line_ref(use.file, use.line)} {use.calls:,} times"
        for use in recorded.optimizers[:_MAX_NAMED]
    ]
    if len(recorded.optimizers) > _MAX_NAMED:
        optimizer_texts.append(f"{len(recorded.optimizers) - _MAX_NAMED} more")
    if optimizer_texts:
        yield f"other optimizers, within these steps: {' · '.join(optimizer_texts)}"


def wait_shares_text(loaders: tuple[LoaderUse, ...]) -> str:
    """Divide the waits in steps among several loaders; nothing for a single one."""
    shares = [(loader, loader.share) for loader in loaders if loader.share]
    total_share = sum(share for _, share in shares)
    if len(shares) < 2 or not total_share:  # noqa: PLR2004 - one has all of it
        return ""
    loader_texts = [
        f"{_name(loader)} {percent(share / total_share)}" for loader, share in shares[:_MAX_NAMED]
    ]
    n_hidden = len(shares) - _MAX_NAMED
    return " · ".join([*loader_texts, *([f"{n_hidden} more loaders"] if n_hidden > 0 else [])])


def _name(loader: LoaderUse) -> str:
    return _line_ref(loader.file, loader.line).lstrip() or f"loader {loader.id}"


def _line_ref(file: str | None, line: int | None) -> str:
    name = clean((file or "").replace("\\", "/").rpartition("/")[2])
    return f" {name}:{line}" if name else ""
