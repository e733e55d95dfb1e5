"""Forward passes of one batch through one model, done twice."""

from typing import Final

from gapless.catalogue import examples, step_lines, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.sampled import share_of
from gapless.catalogue.seen_examples import seen as stated
from gapless.model.change import Change, Scale
from gapless.model.edit import Where
from gapless.model.facts import Repeat
from gapless.model.finding import Loss, Measure
from gapless.model.host_code import CallLine, HostCode
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_LEAST: Final = 0.03  # of the step
_MOST: Final = 0.9
_ON_DEVICE: Final = Interval(0.3, 0.75, 1.0)  # of the thread's share: a pass alone is launched so
_REPEAT: Final = Repeat(Where("train.py", 65, "train"), "model.Net", 1.0)
_CALLED: Final = CallLine("train.py", 65, "train", "model.py", "Net.forward", 0.2)
_LOOKS: Final = HostCode("python", 0.3, 0.9, "train.py", 34, "train", None, 0.3, 600)


@rule(
    "G520",
    "repeated-forward",
    since="0.1",
    figures=[
        Figure(
            "Probabilities for a log, by the same batch once more",
            "model.Net is called again with the tensors that it was called with, this "
            "time without gradients: 4.0 ms of each 20.0 ms step.",
            stated(
                examples.cpu(_REPEAT),
                {"busy.math": 14, "idle.host.python": 6},
                _CALLED,
                _LOOKS,
            ),
        ),
        Figure(
            "Another batch",
            None,
            stated(examples.cpu(), {"busy.math": 14, "idle.host.python": 6}, _CALLED, _LOOKS),
        ),
        Figure(
            "It takes next to nothing",
            None,
            stated(
                examples.cpu(_REPEAT),
                {"busy.math": 14, "idle.host.python": 6},
                CallLine("train.py", 65, "train", "model.py", "Net.forward", 0.01),
                _LOOKS,
            ),
        ),
    ],
)
def repeated_forward(seen: Seen) -> Loss | None:
    """Recognise a model that is called twice in each step with the same tensors.

    ## Why it costs time
    Numbers for a log are often computed by a call of their own, under ``no_grad``, of what the
    model has just been called with: the step pays for a second forward pass, whose results the
    first one has given already, but for dropout.

    ## How it is measured
    While stacks are recorded, calls of outermost modules are compared: the same module in the same
    mode (what is told to evaluate is an evaluation), the same tensors (not others of the same
    sizes), none of them written to meanwhile, once with gradients and once without. How long the
    second call takes, and so that it is no rare one, is known from samples of the training thread's
    stack in all steps; beside a device, its share of the device's work is taken to be the same.
    """
    passes = ((_share(seen, one), one) for one in _repeats(seen))
    share, repeat = max(passes, key=lambda one: one[0].mid, default=(None, None))
    step = seen.step_ns
    if share is None or repeat is None or not step or share.mid < _LEAST:
        return None
    return repeated_forward.loss(
        f"{repeat.kind} is called again with the tensors that it was called with, "
        f"this time without gradients: {windowed.of_step(seen, share.mid * step)}.",
        *_without(seen, share),
        where=repeat.where,
        evidence=(
            Measure("sampled in the second call, of the thread", share.mid, "share"),
            Measure("second calls, a step of the window", repeat.calls, ""),
        ),
        no_remedy=(
            "keep what the first call gives, and compute the numbers from that (detach() where no "
            "gradient is wanted)"
        ),
        inferred=True,
    )


def _repeats(seen: Seen) -> tuple[Repeat, ...]:
    facts = seen.facts
    return () if facts is None else tuple(one for one in facts.repeats if one.where is not None)


def _share(seen: Seen, repeat: Repeat) -> Interval:
    """Give the share of the training thread's time in the calls of a line, with its error."""
    recorded, where = seen.study.recorded, repeat.where
    if recorded is None or where is None:
        return Interval(0.0, 0.0, 0.0)
    looks = sum(one.looks for one in recorded.host_code[:1])
    share = sum(
        one.share
        for one in recorded.call_lines
        if (one.file, one.line) == (where.file, where.line) and one.called.endswith("forward")
    )
    return share_of(share, looks) if looks else Interval(0.0, 0.0, 0.0)


def _without(seen: Seen, share: Interval) -> tuple[Change, ...]:
    """Give what goes with the pass: time of the thread, and of the device beside it."""
    thread = step_lines.left(seen, share)
    if not seen.on_device:
        return (thread,)
    most, mid, least = (
        min(_MOST, part * each)
        for part, each in (
            (share.high, _ON_DEVICE.high),
            (share.mid, _ON_DEVICE.mid),
            (share.low, _ON_DEVICE.low),
        )
    )
    return thread, Scale(Interval(1 - most, 1 - mid, 1 - least), leaves=("busy.",))
