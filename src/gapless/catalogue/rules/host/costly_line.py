"""Lines of the stepping function that take long without training."""

from collections.abc import Sequence
from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import device_waits, graph_passes, samples, step_lines, windows
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import SAME_LINE, Detection, Measure

_MIN_DEVICE_SHARE: Final = 0.08  # with a device, where launching a loss takes longer than it does
_MAX_LINES: Final = 3
_REMEDY: Final = (
    "if training does not need it: leave it out, or do it every hundredth step; if it does: in one "
    f"call on whole tensors (torch._foreach_*, stacked){samples.OR_IN_WORKERS}"
)
_ASIDE: Final = "beside the forward and the backward pass, the optimizer and the loader"
_GRADIENT_REMEDY: Final = (
    "gradients that are only looked at: read them from .grad after backward(), without a pass of "
    "their own; those of several losses: one backward() of their sum; else: not in every step"
)
_BACKWARD_PART: Final = "its part of the backward pass"


@rule(
    "G219",
    "costly-line",
    figures="""
    backward = CallLine("train.py", 30, "train", "torch/_tensor.py", "Tensor.backward", 0.4)
    forward = CallLine("train.py", 25, "train", "model.py", "Net.forward", 0.2)
    node = "autograd::engine::evaluate_function:"
    scheduler = "torch/optim/lr_scheduler.py"
    dispatch = "torch/_jit_internal.py"
    host_code = HostCode("python", 0.3, 0.9, "train.py", 34, "train", None, 0.3, 400)
    # Histograms of all gradients after each step
    > train.py:34-35 takes 6.0 ms of each 20.0 ms step, beside the forward and the backward pass,
      the optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 34, "train", 80, 0.2)
    HotLine("training", "train.py", 35, "train.<listcomp>", 40, 0.1)
    HotLine("training", "train.py", 30, "train", 160, 0.4)
    # A function of the script's own that computes figures for a log
    > train.py:36 takes 4.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "log.py", 12, "accuracy", 80, 0.2)
    CallLine("train.py", 36, "train", "log.py", "accuracy", 0.2)
    # A function of the script's own that computes the loss
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, CallLine("train.py", 28, "train", "loss.py", "criterion", 0.3)
    CallLine("loss.py", 5, "criterion", "loss.py", "smoothed", 0.3)
    CallLine("loss.py", 9, "smoothed", "torch/nn/functional.py", "nll_loss", 0.3)
    # Gradients checked by torch.autograd.gradcheck, in steps that no window holds
    > train.py:31 takes 12.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    cpu()
    step 20
    backward, host_code, HotLine("training", "train.py", 31, "train", 240, 0.6)
    CallLine("train.py", 31, "train", "torch/autograd/gradcheck.py", "gradcheck", 0.6)
    # Gradients that are computed once more to be looked at, and a module that is made anew
    > train.py:27 takes 6.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    > train.py:40 takes 4.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, forward, host_code, operator("aten::addmm", calls=6, host_ms=2)
    operator(f"{node} AddmmBackward0", calls=12, host_ms=4)
    HotLine("training", "train.py", 27, "train", 120, 0.3)
    CallLine("train.py", 27, "train", "torch/autograd/__init__.py", "grad", 0.3)
    HotLine("training", "train.py", 40, "train", 80, 0.2)
    CallLine("train.py", 40, "train", "torch/nn/modules/linear.py", "Linear.__init__", 0.2)
    # Gradients of an inner step, which the next forward pass uses
    cpu()
    busy.math 14, idle.host.python 6
    backward, forward, host_code, operator("aten::addmm", calls=12, host_ms=2)
    operator(f"{node} AddmmBackward0", calls=12, host_ms=4)
    HotLine("training", "train.py", 27, "train", 120, 0.3)
    CallLine("train.py", 27, "train", "torch/autograd/__init__.py", "grad", 0.3)
    # Tensors padded to one length, and objects gathered by a process that is alone
    > train.py:34 takes 4.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    > train.py:39 takes 4.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, forward, host_code, HotLine("training", "train.py", 34, "train", 80, 0.2)
    CallLine("train.py", 34, "train", "torch/nn/utils/rnn.py", "pad_sequence", 0.2)
    HotLine("training", "train.py", 39, "train", 80, 0.2)
    CallLine("train.py", 39, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.2)
    # A scheduler that takes long, and the optimizer's step that it wraps
    > train.py:33 takes 4.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, forward, host_code, HotLine("training", "train.py", 31, "train", 80, 0.2)
    CallLine("train.py", 31, "train", scheduler, "wrap_step.wrapper", 0.2)
    HotLine("training", "train.py", 33, "train", 80, 0.2)
    CallLine("train.py", 33, "train", scheduler, "LRScheduler.step", 0.2)
    # A network that only sums up for a log, called below the optimizer's step
    > train.py:34 takes 6.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, forward, host_code, HotLine("training", "train.py", 34, "train", 120, 0.3)
    CallLine("train.py", 31, "train", "torch/optim/optimizer.py", "wrapper", 0.1)
    CallLine("train.py", 34, "train", "torch/nn/modules/rnn.py", "LSTM.forward", 0.3)
    # The network that trains acts below its step
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 34, "train", 120, 0.3)
    CallLine("train.py", 25, "train", "torch/nn/modules/rnn.py", "LSTM.forward", 0.2)
    CallLine("train.py", 34, "train", "torch/nn/modules/rnn.py", "LSTM.forward", 0.3)
    # A loop, at whose head nothing was sampled, and what is made above it for its rounds
    > train.py:34-37 takes 6.0 ms of each 20.0 ms step, beside the forward and the backward pass,
      the optimizer and the loader.
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 34, "train", 40, 0.1)
    HotLine("training", "train.py", 37, "train", 80, 0.2)
    # A model that is written out in the stepping function
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 26, "train", 120, 0.3)
    CallLine("train.py", 27, "train", "net.py", "layer", 0.3)
    # A loss, called at such a line
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 29, "train", 120, 0.3)
    CallLine("train.py", 29, "train", "torch/nn/functional.py", "nll_loss", 0.3)
    # A progress bar around the loader
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 22, "train", 120, 0.3)
    CallLine("train.py", 22, "train", "site-packages/tqdm/std.py", "tqdm.__iter__", 0.3)
    # A solver of a library's, which calls the model back
    cpu()
    busy.math 14, idle.host.python 6
    backward, forward, host_code, HotLine("training", "train.py", 26, "train", 120, 0.3)
    CallLine("train.py", 26, "train", "site-packages/ode.py", "odeint", 0.4, forward=0.1)
    # A line of a model
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "model.py", 34, "Net.forward", 120, 0.3)
    # A line of few samples
    cpu()
    busy.math 14, idle.host.python 6
    backward, host_code, HotLine("training", "train.py", 34, "train", 24, 0.06)
    # A loop over gradients that keeps a device waiting
    > train.py:34 takes 7.2 ms of each 24.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    gpu()
    busy.math 4, idle.host.dispatch 20
    backward, host_code, HotLine("training", "train.py", 34, "train", 120, 0.3)
    # After the backward pass nothing is a loss any more: numbers for a log
    > train.py:34 takes 2.9 ms of each 24.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    gpu()
    busy.math 4, idle.host.dispatch 20
    backward, host_code, HotLine("training", "train.py", 34, "train", 48, 0.12)
    CallLine("train.py", 34, "train", "torch/nn/functional.py", "cross_entropy", 0.1)
    HotLine("training", "train.py", 29, "train", 44, 0.11)
    # Numbers are read from the device in each step: a thread may wait for it there
    gpu()
    busy.math 14, idle.host.python 6
    backward, host_code, operator("aten::_local_scalar_dense", calls=1, host_ms=6)
    HotLine("training", "train.py", 34, "train", 120, 0.3)
    # A loss is read at one line, and a file is written at another
    > train.py:39 takes 5.0 ms of each 20.0 ms step, beside the forward and the backward pass, the
      optimizer and the loader.
    gpu()
    busy.math 12, idle.host.python 8
    backward, host_code, operator("aten::_local_scalar_dense", calls=1, host_ms=6)
    HotLine("training", "train.py", 34, "train", 120, 0.3, waited=0.29)
    HotLine("training", "train.py", 39, "train", 100, 0.25)
    # A device that hardly waits computes figures for a log
    > The device computes aten::logsumexp 1× for train.py:34, which takes 8.0 ms of each 20.0 ms
      step, beside the forward and the backward pass, the optimizer and the loader.
    gpu()
    busy.math 19, idle.host.python 1
    backward, host_code, HotLine("training", "train.py", 34, "train", 120, 0.3)
    CallLine("train.py", 34, "train", "torch/functional.py", "logsumexp", 0.01)
    operator("aten::logsumexp", calls=1, host_ms=1, device_ms=8)
    Site("aten::logsumexp", "train.py", 20, "train", MS * STEPS, STEPS)
    Site(f"{ON_DEVICE}aten::logsumexp", "train.py", 20, "train", 8 * MS * STEPS, STEPS)
    # The same, where no sample shows that the function's costliest line calls it
    > The device computes aten::logsumexp 1× for `train` (train.py:20), which takes 8.0 ms of each
      20.0 ms step, beside the forward and the backward pass, the optimizer and the loader.
    gpu()
    busy.math 19, idle.host.python 1
    backward, host_code, HotLine("training", "train.py", 36, "train", 120, 0.3)
    operator("aten::logsumexp", calls=1, host_ms=1, device_ms=8)
    Site("aten::logsumexp", "train.py", 20, "train", MS * STEPS, STEPS)
    Site(f"{ON_DEVICE}aten::logsumexp", "train.py", 20, "train", 8 * MS * STEPS, STEPS)
    # A line that launches such work, while the device waits for its host elsewhere
    > The device computes aten::lgamma 50× for train.py:36, which takes 3.6 ms of each 20.0 ms step,
      beside the forward and the backward pass, the optimizer and the loader.
    gpu()
    busy.math 15, idle.host.dispatch 5
    backward, host_code, HotLine("training", "train.py", 36, "train", 24, 0.06)
    operator("aten::lgamma", calls=50, host_ms=1, device_ms=3.6)
    Site("aten::lgamma", "train.py", 20, "train", MS * STEPS, 50 * STEPS)
    Site(f"{ON_DEVICE}aten::lgamma", "train.py", 20, "train", int(3.6 * MS) * STEPS, 50 * STEPS)
    # The same through torch.nn.functional, at a line with few samples
    > The device computes aten::max_pool2d 100× for train.py:36, which takes 8.0 ms of each 20.0 ms
      step, beside the forward and the backward pass, the optimizer and the loader.
    gpu()
    busy.math 19, idle.host.python 1
    backward, host_code, CallLine("train.py", 36, "train", dispatch, "boolean_dispatch.fn", 0.008)
    operator("aten::max_pool2d", calls=100, host_ms=1, device_ms=8)
    Site("aten::max_pool2d", "train.py", 20, "train", MS * STEPS, 100 * STEPS)
    Site(f"{ON_DEVICE}aten::max_pool2d", "train.py", 20, "train", 8 * MS * STEPS, 100 * STEPS)
    # With a device that hardly waits for its host
    gpu()
    busy.math 18, idle.host.python 2
    backward, host_code, HotLine("training", "train.py", 34, "train", 120, 0.3)
    """,
)
def costly_line(evidence: Evidence) -> Sequence[Detection]:
    """Recognise a line of the stepping function that takes long without training.

    ## Why it costs time
    A step needs a forward pass, a backward pass, an optimizer's step and the next batch. Numbers
    for a log, a loop over parameters, a list that grows with each step are computed by the thread
    that trains, and the step waits for them.

    ## How it is measured
    By samples of the training thread's stack, taken during the whole run: the lines of the function
    that calls ``backward()`` at which the thread was itself, or in calls outside training code
    (torch's modules, losses, optimizers, loaders), those close together as one (up to ten lines
    apart, if no time passes between them and neither calls a function of Python); lines that call
    functions of the script which do not call training code either; and the lines of hooks of
    modules and tensors, with all they call. Making, copying and loading modules is no training
    code, nor are schedulers, nor padding (pad_sequence), nor collectives of one process, nor
    gradients that are computed by another pass through a graph of which there is but one, nor
    losses and distributions below the last backward pass, nor networks of torch's called below the
    optimizer's step alone, nor derivatives of functions (torch.func) there, or close between such
    lines. Where no module is called, the lines before the backward pass are the model; what calls
    it back, such as a library's solver, is part of it. Operators count. The price is that of the
    step without the line: whether the step needs it cannot be seen. Causes there take precedence,
    those with a fix if they are half of it. With a device, samples in calls of C that may wait for
    it (numbers read back, copies) do not count, as far as it computes meanwhile; it has to wait for
    the host in the step. What else a line waits, up to its own time, likely goes with it, as far as
    the device idles. A line is surely worth no more than it waits in the line's function, as stacks
    of a window show, and likely no more than it idles for the host, and for batches that the thread
    loads itself. What the device works for operators without a graph that the function calls itself
    goes with the line, too. Where the device hardly waits, or no line takes long beside it, that
    alone counts (of lines above the backward pass the longest operator: the batch may be made
    there), off plain steps if the thread waits as long for the device there. The line is named if
    samples show that call, or calling these operators takes half as long as the line at which most
    samples outside training are; else the function, if there is such a line. Other calls of such an
    operator keep their part. Recordings that do not tell calls that may wait count as if lines had
    waited as long as the device works. Where no window shows it, half of the time is sure; not what
    can only have been in a single long step.
    """
    step_ns = evidence.step_ns
    lines = step_lines.find_costly_lines(evidence) if step_ns else ()
    detections = [
        _line_detection(evidence, line)
        for line in lines[:_MAX_LINES]
        if line.share.low >= _min_share(evidence, line)
        and not samples.is_in_single_step(evidence, line.share.mid)
    ]
    if not detections and evidence.on_device:
        return _device_detections(evidence)
    return detections


def _device_detections(evidence: Evidence) -> Sequence[Detection]:
    """Return the line at which a device that hardly waits computes what trains nothing."""
    line = device_waits.find_device_line(evidence)
    min_share = step_lines.MIN_CAUSE_SHARE if line and line.is_aside else _MIN_DEVICE_SHARE
    if line is None or line.share < min_share:
        return ()
    time_words = windows.format_step_part(evidence, line.share * (evidence.step_ns or 0))
    place_words = name_line(line.location)
    if not line.is_exact:
        place_words = f"`{line.location.function}` ({place_words})"
    return (
        costly_line.detection(
            f"The device computes {line.calls_words} for {place_words}, which takes {time_words}, "
            f"{_ASIDE}.",
            *device_waits.work_changes(evidence, line),
            location=line.location,
            measures=(Measure("the device's time for the line", line.share, "share"),),
            no_remedy=samples.offer_workers(evidence, _REMEDY),
            unless=SAME_LINE,
            inferred=True,
        ),
    )


def _min_share(evidence: Evidence, line: StepLine) -> float:
    may_be_loss = evidence.on_device and not step_lines.follows_passes(line, evidence.call_lines)
    return _MIN_DEVICE_SHARE if may_be_loss else step_lines.MIN_CAUSE_SHARE


def _line_detection(evidence: Evidence, line: StepLine) -> Detection:
    share, step_ns = line.share, evidence.step_ns or 0
    exposed_share = device_waits.exposed_share(evidence, line) if evidence.on_device else 1.0
    sure_share = min(share.low, exposed_share) * device_waits.shown_share(evidence)
    work_share = device_waits.own_work_share(evidence, line)
    freed_share = device_waits.freed_share(evidence, exposed_share) + work_share.mid
    waited_share = min(line.waited, share.mid)
    likely_share = max(sure_share, min(share.mid + waited_share, freed_share))
    leaves = device_waits.freed_leaves(evidence) if evidence.on_device else None
    max_share = share.high + waited_share
    if leaves and work_share.high:
        max_share = max(likely_share, min(max_share, evidence.share(*leaves) + work_share.high))
        leaves = (*leaves, "busy.")
    passed_share = graph_passes.backward_share(evidence, line)
    remedy = _GRADIENT_REMEDY if line.has_gradients else _REMEDY
    return costly_line.detection(
        f"{line.place} takes {windows.format_step_part(evidence, share.mid * step_ns)}, {_ASIDE}.",
        samples.remove_share(
            evidence,
            Estimate(
                sure_share + passed_share.low,
                likely_share + passed_share.mid,
                max_share + passed_share.high,
            ),
            leaves,
        ),
        location=line.location,
        measures=(
            Measure(samples.SAMPLED_AT_LINE, share.mid, "share"),
            Measure("samples", line.looks, ""),
            *([Measure(_BACKWARD_PART, passed_share.mid, "share")] if passed_share.mid else ()),
        ),
        no_remedy=samples.offer_workers(evidence, remedy),
        unless=SAME_LINE,
        line_range=(line.first_line, line.last_line),
        inferred=True,
    )
