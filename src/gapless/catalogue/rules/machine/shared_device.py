"""A device on which other processes compute, too."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.no_empty_cache import mapped_wait_share
from gapless.catalogue.queries.windows import format_step_part
from gapless.model.account import RowAccount
from gapless.model.change import Drop, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.finding import Detection, Measure
from gapless.model.run import DeviceState

_MIN_SAMPLE_SHARE: Final = 0.1  # of the samples
_ALONE_FACTOR: Final = Estimate(0.5, 0.85, 1.0)  # of the time, if they computed nothing
_WAITS: Final = "idle.device.wait"  # longer than a device ever takes from one kernel to the next
_MIN_WAIT_SHARE: Final = 0.1  # of each step
_MIN_SHARED_WAIT: Final = 0.005  # likewise, if other processes are known to be there
_MIN_STEPS: Final = 3  # in windows, at least
_MANUAL_REMEDY: Final = (
    "Use another GPU (CUDA_VISIBLE_DEVICES), or wait until they are done (nvidia-smi shows them)."
)


@rule(
    "G802",
    "shared-device",
    figures="""
    make_run(waits_ms=0) = evidence_of(gpu(), {"busy.tc_math": 40, **({_WAITS: waits_ms} if waits_ms
      else {})})
    device_state(others_share) = DeviceState(0, 0.98, 1980.0, 1980.0, {}, others_share, None, None,
      None)
    # Another training on the device
    > Processes that are not of this run are on GPU 0 in 90 % of the samples; for 25.0 ms of each
      65.0 ms step work that is ready for the training's device has to wait.
    with_recorded(make_run(25), devices_seen=(device_state(0.9),))
    # Another process on the device that does nothing
    > Processes that are not of this run are on GPU 0 in 90 % of the samples; in most steps work
      that is ready for the training's device starts at once.
    with_recorded(make_run(), devices_seen=(device_state(0.9),))
    # Others are not visible, but their effect is
    > Work that is ready for the device has to wait for 25.0 ms of each 65.0 ms step, as if other
      processes computed on it.
    make_run(25)
    # Memory is mapped in each step, and the device waits for that
    gpu()
    busy.tc_math 40, idle.device.wait 25
    operator("cudaMalloc", 40, 10), operator("cudaFree", 40, 20)
    # The same beside other processes
    > Processes that are not of this run are on GPU 0 in 90 % of the samples; for 25.0 ms of each
      65.0 ms step work that is ready for the training's device has to wait, as it does where steps
      ask the driver for memory.
    with_recorded(evidence_of(gpu(), {"busy.tc_math": 40, _WAITS: 25},
      operator("cudaMalloc", 50, 10)), devices_seen=(device_state(0.9),))
    # Memory is mapped once in two steps, which is no reason to wait for so long
    > Processes that are not of this run are on GPU 0 in 90 % of the samples; for 24.8 ms of each
      65.0 ms step work that is ready for the training's device has to wait.
    with_recorded(evidence_of(gpu(), {"busy.tc_math": 40, _WAITS: 25},
      operator("cudaMalloc", 0.5, 0.2)), devices_seen=(device_state(0.9),))
    # Alone
    with_recorded(make_run(), devices_seen=(device_state(0.0),))
    """,
)
def shared_device(evidence: Evidence) -> Detection | None:
    """Recognise that other processes compute on the device of the training.

    ## Why it costs time
    A device runs the kernels of one process at a time, in turns; it does not divide its time
    evenly, and memory that others hold is not available for a larger batch.

    ## How it is measured
    By asking the driver, about once a second, which processes are on it; one that is there need not
    compute. What it takes shows in windows, even if the driver does not list it (in a container, or
    for a trace): a device used by one process begins queued work within 20 µs; one that alternates
    between processes leaves it for a time slice of the others (2.3 ms on an H200), in each step.
    That time is the lower bound of the gain; others may take as much again within kernels, where it
    does not show. Where steps ask the driver for memory, up to 0.5 ms a call is a wait for that
    (allocating-in-step, emptied-cache), and nobody else is to blame for it. Without windows the
    gain is an interval that begins at nothing.
    """
    states = evidence.device_states
    known_states = [state for state in states if state.others is not None]
    if not evidence.has_device:
        return None
    if not evidence.on_device:
        raise NotObservedError("device", "who computes on the device was not sampled")
    busiest = max(known_states, key=lambda state: state.others or 0.0, default=None)
    if busiest is not None and (busiest.others or 0.0) >= _MIN_SAMPLE_SHARE:
        return _sampled_detection(evidence, busiest)
    if _waits_in_each_step(evidence):
        return _inferred_detection(evidence)
    if busiest is None:
        raise NotObservedError("device", "who computes on the device was not sampled")
    return None


def _waits_in_each_step(evidence: Evidence) -> bool:
    """Return whether each step of the windows waits; a single one may, when a capture starts."""
    rows, others_share = evidence.study.account.rows, 1 - mapped_wait_share(evidence)
    return len(rows) >= _MIN_STEPS and all(
        _has_waits(row, _MIN_WAIT_SHARE, others_share) for row in rows
    )


def _has_waits(row: RowAccount, min_share: float, others_share: float = 1.0) -> bool:
    waits_ns = others_share * row.leaves.get(_WAITS, 0)
    return waits_ns >= min_share * max(1, sum(row.leaves.values()))


def _sampled_detection(evidence: Evidence, state: DeviceState) -> Detection:
    presence, rows = state.others or 0.0, evidence.study.account.rows
    subject = (
        f"Processes that are not of this run are on GPU {state.number} in {100 * presence:.0f} "
        "% of the samples"
    )
    samples = Measure("samples with other processes", presence, "share")
    if not rows:
        return shared_device.detection(
            f"{subject}; what they take is not known.",
            Scale(_ALONE_FACTOR, leaves=("busy.",)),
            measures=(samples,),
            no_remedy=_MANUAL_REMEDY,
        )
    others_share = 1 - mapped_wait_share(evidence)
    is_frequent, is_theirs = (
        2 * sum(_has_waits(row, _MIN_SHARED_WAIT, share) for row in rows) >= len(rows)
        for share in (1.0, others_share)
    )
    effect = "in most steps work that is ready for the training's device starts at once"
    if is_frequent:
        wait_ns = (others_share if is_theirs else 1.0) * evidence.per_step(_WAITS)
        wait_words = format_step_part(evidence, wait_ns)
        effect = f"for {wait_words} work that is ready for the training's device has to wait"
        if not is_theirs:
            effect += ", as it does where steps ask the driver for memory"
    return shared_device.detection(
        f"{subject}; {effect}.",
        Drop((_WAITS,), keep=1 - others_share if is_theirs else 1.0),
        measures=(samples, _wait_measure(evidence)),
        no_remedy=_MANUAL_REMEDY,
    )


def _inferred_detection(evidence: Evidence) -> Detection:
    mapped_share = mapped_wait_share(evidence)
    wait_ns = (1 - mapped_share) * evidence.per_step(_WAITS)
    return shared_device.detection(
        "Work that is ready for the device has to wait for "
        f"{format_step_part(evidence, wait_ns)}, as if other processes computed on it.",
        Drop((_WAITS,), keep=mapped_share),
        measures=(_wait_measure(evidence),),
        no_remedy=_MANUAL_REMEDY,
        inferred=True,
    )


def _wait_measure(evidence: Evidence) -> Measure:
    return Measure("waits with work queued", evidence.per_step(_WAITS) / 1e6, "ms a step")
