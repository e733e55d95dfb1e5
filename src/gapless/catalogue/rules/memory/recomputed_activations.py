"""Activations that are computed twice although memory could hold them."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.checkpointing_off import checkpointing_off
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step, window_share, work_of
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.roofline.recomputed import keep_activations

_MIN_STEP_SHARE: Final = 0.01  # of the step
_CHECKPOINT_FILE: Final = "torch/utils/checkpoint.py"
_MAX_MEMORY_SHARE: Final = 0.6  # of the device's memory: above it, there may be no room


@rule(
    "G404",
    "recomputed-activations",
    figures="""
    checkpointed_facts = gpu(model(checkpoints=True))
    recomputed_work = (example_work("aten::mm", ((4096, 768), (768, 3072)), 12, "busy.tc_math",
      dtype="bf16", calls=90), example_work("aten::addmm", ((3072,), (4096, 768), (768, 3072)), 4,
      "busy.tc_math", dtype="bf16", calls=30, backward=True, again=True))
    device_state(used_gib) = DeviceState(0, 0.99, None, None, {}, 0.0, used_gib << 30, 140 << 30,
      None)
    example_run(facts, used_gib) = with_recorded(evidence_of(facts, {"busy.tc_math": 16},
      *recomputed_work), devices_seen=(device_state(used_gib),))
    # A third of the memory is in use
    > 4.0 ms of each 16.0 ms step recompute activations; 42 of 140 GiB of the device's memory were
      in use at most.
    example_run(checkpointed_facts, 42)
    # There would be no room
    example_run(checkpointed_facts, 120)
    # They are kept
    gpu()
    busy.tc_math 16
    recomputed_work[0]
    """,
)
def recomputed_activations(evidence: Evidence) -> Detection | None:
    """Recognise activation checkpointing in a run whose device has memory to spare.

    ## Why it costs time
    The forward pass of checkpointed modules runs twice: a third more computing, to save memory that
    is not used.

    ## How it is measured
    By kernels that a forward operator launched within the backward pass (without a device by such
    operators themselves); and by the peak memory in use, which leaves room if it is below three
    fifths. A trial shows whether the activations do fit.
    """
    rows = work_of(evidence)
    spent_ns = sum(row.ns for row in rows if row.again)
    peak, total = _peak_memory(evidence)
    if window_share(evidence, spent_ns) < _MIN_STEP_SHARE or (
        peak and total and peak > _MAX_MEMORY_SHARE * total
    ):
        return None
    room = "how much memory is free was not recorded"
    if peak and total:
        room = f"{peak >> 30} of {total >> 30} GiB of the device's memory were in use at most"
    memory_measures = (Measure("most memory in use", peak, "bytes"),) if peak else ()
    has_modules = bool(evidence.facts.models) and not evidence.is_trace_only
    return recomputed_activations.detection(
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, spent_ns))} recompute "
        f"activations; {room}.",
        *keep_activations(rows),
        location=_checkpoint_location(evidence) or _model_location(evidence),
        measures=(
            Measure("computed again, a step", ns_per_window_step(evidence, spent_ns), "ns"),
            *memory_measures,
        ),
        helps=(checkpointing_off.request(),) if has_modules else (),
        no_remedy=None if has_modules else "Leave torch.utils.checkpoint out.",
    )


def _checkpoint_location(evidence: Evidence) -> Location | None:
    """Return the line that was sampled most in checkpointed code, else the function in stacks."""
    calls = [call for call in evidence.call_lines if call.callee_file.endswith(_CHECKPOINT_FILE)]
    if calls:
        top = max(calls, key=lambda call: call.share)
        return Location(top.file, top.line, top.function)
    return windows.find_calling_function(evidence, "CheckpointFunction", "torch.utils.checkpoint.*")


def _model_location(evidence: Evidence) -> Location | None:
    """Return where the model that checkpoints was made."""
    models = evidence.facts.models
    return next((model.location for model in models if model.checkpoints is not False), None)


def _peak_memory(evidence: Evidence) -> tuple[int | None, int | None]:
    """Return the highest peak of memory in use on any device, and the size of its memory."""
    peaks = [
        (state.memory_peak, state.memory_total)
        for state in evidence.device_states
        if state.memory_peak and state.memory_total
    ]
    return max(peaks, key=lambda peak: peak[0] / peak[1], default=(None, None))
