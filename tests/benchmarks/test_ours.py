"""What gapless says, as an answer: causes with a price first, then those that have to be tried."""

from pathlib import Path

from benchmarks.judging.ours import says
from benchmarks.judging.records import FAULTY, Record
from gapless.catalogue.examples import gpu, loader
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.study.ceilings import Ceilings
from gapless.study.price import Prices
from gapless.study.replaying import Silent

RECORD = Record("made", "made", FAULTY, (), Path("none"))


def test_what_has_no_price_is_recommended_behind_all_that_has_one() -> None:
    run = seen(
        gpu(loader(), collections=40),
        {"busy.math": 40, "idle.data.decode": 50, "idle.gc": 10},
        used(loader(), {"decode": 50.0}, made_by(0, {"decode": 0.75})),
    )
    said = says(Prices(run, Silent("no window"), Ceilings()), RECORD)
    named = said.answer.named
    assert [(one.fix, one.speedup is None) for one in named] == [
        ("collector", False),
        ("more-workers", True),
    ]
    assert "workers" in named[1].causes
    assert named[1].says.startswith("G101 loader-in-training-process, to be tried:")
    assert named[1].value == 2.0
