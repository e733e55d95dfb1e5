"""Batches of which much is padding."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.samples.length_buckets import find_bucket_obstacle, length_buckets
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import ns_per_window_step, roof_of, work_of
from gapless.model.change import Change, HostChange, Scale
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader, PaddingStats
from gapless.model.finding import Detection, Measure
from gapless.roofline.padding import (
    find_host_factor,
    is_looked_up,
    length_target,
    rows_with_length,
    shorten_factor,
)
from gapless.roofline.roofline import NO_CHANGE, scale_changes

_FULL: Final = 0.85  # partial sorting by length leaves as much padding
_MIN_STEP_SHARE: Final = 0.02  # of the step, for work that scales with the length
_CALLS: Final = ("idle.host.dispatch", "idle.host.engine", "idle.launch")  # what each costs
_REACH: Final = 0.95  # of the length: if all rows end earlier, it is fixed


@rule(
    "G510",
    "padded-batches",
    figures="""
    tokens = PaddingStats(batches=12, rows=32, length=512, lengths=(512,), filled=0.24, longest=0.6,
      square=0.08, declared=True, varies=False, kind="int", dimensions=2)
    speech = replace(tokens, rows=16, length=1480, lengths=(1210, 1480, 1730), filled=0.45,
      longest=1.0, square=0.25, varies=True, kind="float", dimensions=3)
    borders = replace(tokens, rows=16, length=224, lengths=(224,), filled=0.7, declared=False)
    optimizer_work = example_work("aten::_foreach_add_", ((3072, 768), (768, 3072)), 4,
      "busy.optimizer")
    leaves = {"busy.math": 16, "busy.elementwise": 4, "busy.optimizer": 4}
    example_run(padding, *work) = evidence_of(gpu(loader(padding=padding)), leaves, *work,
      optimizer_work, h200())
    product(sizes) = example_work("aten::mm", sizes, 16, "busy.math", calls=24)
    activation(sizes) = example_work("aten::gelu", sizes, 4, "busy.elementwise", calls=24)
    layer_work(rows, length) = (product(((rows * length, 768), (768, 3072))),
      activation(((rows, length, 3072),)))
    # Texts are padded to 512 tokens
    > 76 % of the positions of a batch are padding: rows of 512 are filled up to 123 on average, the
      longest of a batch up to 307; work on them takes 20.0 ms of each 24.0 ms step of the windows.
    example_run(tokens, *layer_work(32, 512))
    # Recordings are padded to the longest of their batch
    > 55 % of the positions of a batch are padding: rows of 1210 to 1730 are filled up to 666 on
      average; work on them takes 20.0 ms of each 24.0 ms step of the windows.
    example_run(speech, *layer_work(16, 1480))
    # Batches of similar lengths
    example_run(replace(tokens, filled=0.94))
    # Rows are packed before they are computed with
    example_run(tokens, *layer_work(1, 3930))
    # Numbers with equal ends, without lengths, and never looked up
    example_run(borders, *layer_work(16, 224))
    # Pictures
    example_run(None, *layer_work(16, 224))
    """,
)
def padded_batches(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise batches whose rows are filled up with padding, and work on that padding.

    ## Why it costs time
    Rows of one batch are made as long as its longest, or as the longest that may ever occur. The
    padding of the others is multiplied, normalised and thrown away again like everything else; a
    mask hides it from the result, not from the device.

    ## How it is measured
    A few batches of the run are examined as the loader hands them over: for each row, from where on
    all positions equal its last. That counts as padding if lengths or a mask in the batch agree;
    for integers, if batches of that size are looked up in a table; else only if batches differ in
    length. Pictures with dark borders meet none of these conditions.

    The work that scales with the length are operators with the length among the sizes of their
    inputs, besides the batch; rows that were packed together are left out. A call's fixed cost
    remains.
    """
    filling = loader.padding
    if filling is None or filling.filled >= _FULL or loader.trains is False:
        return None
    rows = work_of(evidence)
    if not (filling.declared or filling.varies or is_looked_up(rows, filling)):
        return None
    spent_ns = ns_per_window_step(evidence, sum(row.ns for row in rows_with_length(rows, filling)))
    if spent_ns < _MIN_STEP_SHARE * (evidence.step_ns or 0):
        return None
    average = round(filling.filled * filling.length)
    return padded_batches.detection(
        f"{1 - filling.filled:.0%} of the positions of a batch are padding: rows of "
        f"{_lengths(filling)} are filled up to {average} on average{_longest(filling)}; work on "
        f"them takes {windows.ms(spent_ns)} of each {windows.ms(_step_ns(evidence))} step "
        "of the windows.".replace("%", " %", 1),
        *changes_when_shorter(evidence, filling),
        location=_padding_location(loader, filling),
        measures=(
            Measure("of batches that is padding", 1 - filling.filled, "share"),
            Measure("work that goes with the length, a step", spent_ns, "ns"),
            Measure("batches looked at", filling.batches, ""),
        ),
        helps=(length_buckets.request(),) if _can_be_sorted(loader, filling) else (),
        no_remedy=_manual_remedy(filling),
    )


def changes_when_shorter(evidence: Evidence, filling: PaddingStats) -> tuple[Change, ...]:
    """Return what changes if batches are hardly longer than their contents."""
    roof = roof_of(evidence)
    kernel_ns = None if roof is None else roof.peaks.kernel_ns
    factor = shorten_factor(evidence.study.work, filling, kernel_ns)
    linear = length_target(filling).linear
    copies = Scale(Estimate(linear.low, linear.mid, 1.0), leaves=("copy.h2d",))
    host_factor = find_host_factor(evidence.study.work, filling)
    return (
        *scale_changes(evidence.study.work, factor),
        *((HostChange(_CALLS, host_factor),) if host_factor != NO_CHANGE else ()),
        *((copies,) if evidence.on_device else ()),
    )


def _can_be_sorted(loader: Loader, filling: PaddingStats) -> bool:
    """Return whether rows are padded to the longest of their batch, and lengths can be known."""
    return filling.longest >= _REACH and find_bucket_obstacle(loader) is None


def _padding_location(loader: Loader, filling: PaddingStats) -> Location | None:
    """Return the line to change: that of collating, if all rows are padded beyond the longest."""
    is_too_far = filling.longest < _REACH
    return loader.collate if is_too_far and loader.collate is not None else loader.location


def _manual_remedy(filling: PaddingStats) -> str:
    sort_words = (
        "Put rows of like length into a batch (a batch_sampler that sorts some hundred rows by "
        "length and shuffles the batches), or put rows one after another (packed sequences, "
        "nested tensors, attention of varying lengths)."
    )
    if filling.longest < _REACH:
        return f"Pad in the collate function to the longest of the batch, no further. {sort_words}"
    return sort_words


def _lengths(filling: PaddingStats) -> str:
    low, high = filling.lengths[0], filling.lengths[-1]
    return f"{high}" if low == high else f"{low} to {high}"


def _longest(filling: PaddingStats) -> str:
    if filling.longest >= _REACH:
        return ""
    return f", the longest of a batch up to {round(filling.longest * filling.length)}"


def _step_ns(evidence: Evidence) -> float:
    """Return the length of a step in the windows, to which their operators belong."""
    account = evidence.study.account
    return account.wall_ns / account.steps if account.steps else evidence.step_ns or 0.0
