"""Leave out what a cause is about, where only rewriting would: in the training's process.

By the slug of the cause: what is done to which module once it is imported. The note ``removed`` is
made when something was left out. ``functions`` is called by sources that were changed.
"""

from . import evaluations, gradients, growth, padding, reads, settings

REMOVALS = {
    "needless-gradients": gradients.ACTS,
    "padded-batches": padding.ACTS,
    "scalar-read": reads.SCALAR_ACTS,
    "read-back": reads.TENSOR_ACTS,
    "evaluation-with-autograd": evaluations.ACTS,
    "distribution-checks": settings.CHECK_ACTS,
    "profiler-left-on": settings.PROFILER_ACTS,
    "emulated-half": settings.AUTOCAST_ACTS,
    "double-precision": settings.DOUBLE_ACTS,
}
WATCHES = {"elements": growth.ACTS}
