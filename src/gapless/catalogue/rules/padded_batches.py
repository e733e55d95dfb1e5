"""Batches of which much is padding."""

from dataclasses import replace
from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import per_step, roof_of, work_of
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import h200, worked
from gapless.model.change import Change, Scale
from gapless.model.edit import Where
from gapless.model.facts import Filling, Loader
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.work import Work
from gapless.replay.roofline import scales
from gapless.replay.shorter import aim_of, looked_up, shortened, with_length

_FULL: Final = 0.85  # sorting by length in part leaves as much padding; more would not give much
_LEAST: Final = 0.02  # of the step that must go with the length
_UNTIL: Final = 0.95  # where the longest row ends: before, all rows are padded to a fixed length
_TOKENS: Final = Filling(
    batches=12,
    rows=32,
    length=512,
    lengths=(512,),
    filled=0.24,
    longest=0.6,
    square=0.08,
    told=True,
    varies=False,
    kind="int",
    dimensions=2,
)
_SPEECH: Final = replace(
    _TOKENS,
    rows=16,
    length=1480,
    lengths=(1210, 1480, 1730),
    filled=0.45,
    longest=1.0,
    square=0.25,
    varies=True,
    kind="float",
    dimensions=3,
)
_BORDERS: Final = replace(_TOKENS, rows=16, length=224, lengths=(224,), filled=0.7, told=False)


def _run(filling: Filling | None, *work: Work) -> Seen:
    loader = replace(examples.loader(), filling=filling)
    rest = worked("aten::_foreach_add_", ((3072, 768), (768, 3072)), 4, "busy.optimizer")
    facts = examples.gpu(loader)
    return stated(
        facts, {"busy.math": 16, "busy.elementwise": 4, "busy.optimizer": 4}, *work, rest, h200()
    )


def _layers(rows: int, length: int) -> tuple[Work, Work]:
    sizes = ((rows * length, 768), (768, 3072))
    return (
        worked("aten::mm", sizes, 16, "busy.math", calls=24),
        worked("aten::gelu", ((rows, length, 3072),), 4, "busy.elementwise", calls=24),
    )


@rule(
    "G510",
    "padded-batches",
    since="0.1",
    figures=[
        Figure(
            "Texts are padded to 512 tokens",
            "76 % of the positions of a batch are padding: rows of 512 are filled up to 123 on "
            "average, the longest of a batch up to 307; what goes over them takes 20.0 ms of each "
            "24.0 ms step of the windows.",
            _run(_TOKENS, *_layers(32, 512)),
        ),
        Figure(
            "Recordings are padded to the longest of their batch",
            "55 % of the positions of a batch are padding: rows of 1210 to 1730 are filled up to "
            "666 on average; what goes over them takes 20.0 ms of each 24.0 ms step of the "
            "windows.",
            _run(_SPEECH, *_layers(16, 1480)),
        ),
        Figure("Batches of like lengths", None, _run(replace(_TOKENS, filled=0.94))),
        Figure(
            "Rows are packed before they are computed with",
            None,
            _run(_TOKENS, *_layers(1, 3930)),
        ),
        Figure(
            "Numbers that end alike, in no lengths, and are looked up nowhere",
            None,
            _run(_BORDERS, *_layers(16, 224)),
        ),
        Figure("Pictures", None, _run(None, *_layers(16, 224))),
    ],
)
def padded_batches(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise batches whose rows are filled up with padding, and work that goes over it.

    ## Why it costs time
    Rows of one batch are made as long as its longest, or as the longest that may ever come. What is
    put behind the others is multiplied, normalised and thrown away again like all else; a mask
    hides it from the result and not from the device.

    ## How it is measured
    A few batches of the run are looked at as the loader hands them over: of each row, from where on
    all positions are the same as its last. That counts as padding where lengths or a mask in
    the batch say the same; of whole numbers where batches of that size are looked up in a table;
    else only where batches differ in length. Pictures with dark borders are none of these.

    What goes with the length are operators with the length among the sizes of their inputs, beside
    the batch; rows that were packed together are left alone. A call's fixed cost stays.
    """
    filling = loader.filling
    if filling is None or filling.filled >= _FULL or loader.trains is False:
        return None
    rows = work_of(seen)
    if not (filling.told or filling.varies or looked_up(rows, filling)):
        return None
    spent = per_step(seen, sum(one.ns for one in with_length(rows, filling)))
    if spent < _LEAST * (seen.step_ns or 0):
        return None
    filled = round(filling.filled * filling.length)
    return padded_batches.loss(
        f"{1 - filling.filled:.0%} of the positions of a batch are padding: rows of "
        f"{_lengths(filling)} are filled up to {filled} on average{_longest(filling)}; what goes "
        f"over them takes {windowed.ms(spent)} of each {windowed.ms(_step(seen))} step "
        "of the windows.".replace("%", " %", 1),
        *shorter(seen, filling),
        where=_place(loader, filling),
        evidence=(
            Measure("of batches that is padding", 1 - filling.filled, "share"),
            Measure("work that goes with the length, a step", spent, "ns"),
            Measure("batches looked at", filling.batches, ""),
        ),
        no_remedy=_by_hand(filling),
    )


def shorter(seen: Seen, filling: Filling) -> tuple[Change, ...]:
    """Give what changes if batches are hardly longer than what they hold."""
    roof = roof_of(seen)
    least = None if roof is None else roof.peaks.kernel_ns
    factor = shortened(seen.study.work, filling, least)
    linear = aim_of(filling).linear
    copies = Scale(Interval(linear.low, linear.mid, 1.0), leaves=("copy.h2d",))
    return (*scales(seen.study.work, factor), *((copies,) if seen.on_device else ()))


def _place(loader: Loader, filling: Filling) -> Where | None:
    """Give the line to change: where rows are put together, if all are padded further than that."""
    too_far = filling.longest < _UNTIL
    return loader.collate if too_far and loader.collate is not None else loader.where


def _by_hand(filling: Filling) -> str:
    sort = (
        "Put rows of like length into a batch (a batch_sampler that sorts some hundred rows by "
        "length and shuffles the batches), or put rows one after another (packed sequences, "
        "nested tensors, attention of varying lengths)."
    )
    if filling.longest < _UNTIL:
        return f"Pad in the collate function to the longest of the batch, no further. {sort}"
    return sort


def _lengths(filling: Filling) -> str:
    low, high = filling.lengths[0], filling.lengths[-1]
    return f"{high}" if low == high else f"{low} to {high}"


def _longest(filling: Filling) -> str:
    if filling.longest >= _UNTIL:
        return ""
    return f", the longest of a batch up to {round(filling.longest * filling.length)}"


def _step(seen: Seen) -> float:
    """Give the step in the windows: what operators take there is a part of it."""
    account = seen.study.account
    return account.wall_ns / account.steps if account.steps else seen.step_ns or 0.0
