"""Forward passes of one batch through one model, done twice."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import samples, windows
from gapless.catalogue.queries.samples import estimate_share
from gapless.model.change import Change, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Repeat
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.03  # of the step
_MAX_DEVICE_SHARE: Final = 0.9
_ON_DEVICE: Final = Estimate(0.3, 0.75, 1.0)  # of the thread's share
_AGAIN: Final = "again with the tensors that it was called with, this time without gradients"
_LEFT: Final = "once more without gradients, and nothing takes the result"
_REMEDY: Final = (
    "keep what the first call gives, and compute the numbers from that (detach() where no "
    "gradient is wanted)"
)
_LEFT_REMEDY: Final = (
    "leave it out, unless the module keeps what is needed later in an attribute of its own"
)


@rule(
    "G520",
    "repeated-forward",
    figures="""
    repeat = Repeat(Location("train.py", 65, "train"), "model.Net", 1.0)
    call_line = CallLine("train.py", 65, "train", "model.py", "Net.forward", 0.2)
    host_code = HostCode("python", 0.3, 0.9, "train.py", 34, "train", None, 0.3, 600)
    # Probabilities for a log, from the same batch again
    > model.Net is called again with the tensors that it was called with, this time without
      gradients: 4.0 ms of each 20.0 ms step.
    cpu(repeat)
    busy.math 14, idle.host.python 6
    call_line, host_code
    # A copy of the batch with noise, and nothing takes what the model makes of it
    > model.Net is called once more without gradients, and nothing takes the result: 4.0 ms of each
      20.0 ms step.
    cpu(Repeat(Location("train.py", 65, "train"), "model.Net", 1.0, is_left=True))
    busy.math 14, idle.host.python 6
    call_line, host_code
    # Another batch
    cpu()
    busy.math 14, idle.host.python 6
    call_line, host_code
    # It takes next to nothing
    cpu(repeat)
    busy.math 14, idle.host.python 6
    CallLine("train.py", 65, "train", "model.py", "Net.forward", 0.01), host_code
    """,
)
def repeated_forward(evidence: Evidence) -> Detection | None:
    """Recognise a model that is called twice in each step with the same tensors.

    ## Why it costs time
    Numbers for a log are often computed by a separate call, under ``no_grad``, on the same inputs
    that the model has just been called with: the step pays for a second forward pass, whose results
    the first one has already given, except for dropout.

    ## How it is measured
    While stacks are recorded, calls of outermost modules are compared: the same module in the same
    mode (evaluation mode means an evaluation), the same tensors (not others of the same sizes),
    none of them written to meanwhile, once with gradients and once without; or with any tensors, if
    the bytecode behind the call without gradients drops its result, no part of the module has a
    hook, and no norm learns from the batch. Samples of the training
    thread's stack in all steps show how long the second call takes, and that it is not rare; with a
    device, its share of the device's work is assumed to be the same.
    """
    candidates = (
        (_repeat_share(evidence, repeat), repeat) for repeat in _located_repeats(evidence)
    )
    share, repeat = max(candidates, key=lambda candidate: candidate[0].mid, default=(None, None))
    step_ns = evidence.step_ns
    if share is None or repeat is None or not step_ns or share.mid < _MIN_STEP_SHARE:
        return None
    time_words = windows.format_step_part(evidence, share.mid * step_ns)
    return repeated_forward.detection(
        f"{repeat.kind} is called {_LEFT if repeat.is_left else _AGAIN}: {time_words}.",
        *_changes_without(evidence, share),
        location=repeat.location,
        measures=(
            Measure("sampled in the second call, of the thread", share.mid, "share"),
            Measure("second calls, a step of the window", repeat.calls, ""),
        ),
        no_remedy=_LEFT_REMEDY if repeat.is_left else _REMEDY,
        inferred=True,
    )


def _located_repeats(evidence: Evidence) -> tuple[Repeat, ...]:
    return tuple(repeat for repeat in evidence.facts.repeats if repeat.location is not None)


def _repeat_share(evidence: Evidence, repeat: Repeat) -> Estimate:
    """Return the share of the training thread's time in the calls of a line, with its error."""
    location = repeat.location
    if location is None:
        return Estimate(0.0, 0.0, 0.0)
    n_samples = sum(code.looks for code in evidence.host_code[:1])
    share = sum(
        line.share
        for line in evidence.call_lines
        if (line.file, line.line) == (location.file, location.line)
        and line.callee.endswith("forward")
    )
    return estimate_share(share, n_samples) if n_samples else Estimate(0.0, 0.0, 0.0)


def _changes_without(evidence: Evidence, share: Estimate) -> tuple[Change, ...]:
    """Return what changes without the pass: time of the thread, and of the device."""
    thread_change = samples.remove_share(evidence, share)
    if not evidence.on_device:
        return (thread_change,)
    high, mid, low = (
        min(_MAX_DEVICE_SHARE, thread_share * factor)
        for thread_share, factor in (
            (share.high, _ON_DEVICE.high),
            (share.mid, _ON_DEVICE.mid),
            (share.low, _ON_DEVICE.low),
        )
    )
    return thread_change, Scale(Estimate(1 - high, 1 - mid, 1 - low), leaves=("busy.",))
