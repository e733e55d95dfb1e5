"""The line of a loss is the user's, and as near to the cause as what was recorded tells."""

import pytest

from gapless.catalogue.examples import LOADER_LINE, OPTIMIZER_LINE, fed, gpu, loader
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import kernel, source
from gapless.model.change import Change, Copied, Drop, Feed, Hosted, Merge, Omit, Scale
from gapless.model.edit import Where
from gapless.model.finding import Loss
from gapless.model.footprint import SyncUse
from gapless.model.host_code import HotLine
from gapless.model.interval import Interval
from gapless.model.study import Site
from gapless.study.locate import locate

TORCH = "/venv/lib/python3.12/site-packages/torch/optim/adamw.py"
SAME = Interval(1.0, 1.0, 1.0)


def site(name: str, function: str, ns: int, file: str = "train.py", line: int = 10) -> Site:
    return Site(name, file, line, function, ns, 1)


def line(change: Change, *parts: object, where: Where | None = None) -> Where | None:
    of = seen(gpu(loader()), {"busy.math": 50, "idle.sync.return": 50}, *parts)
    return locate(Loss("G901", "slow", "It is slow.", (change,), where), of)


def test_the_rules_own_line_holds_unless_it_is_a_librarys() -> None:
    own = Where("train.py", 70)
    assert line(Drop(("idle.gc",)), where=own) == own
    assert line(Feed(0), where=Where(TORCH, 70)) == LOADER_LINE


def test_what_the_machine_does_lies_at_no_line() -> None:
    of = seen(gpu(loader()), {"busy.math": 50}, site("idle.host.python", "main", 70))
    changes = (Hosted(("idle.host",), SAME),)
    assert locate(Loss("G204", "slow", "", changes), of) == Where("train.py", 10, "main")
    assert locate(Loss("G804", "taken", "", changes), of) is None
    own = Where("train.py", 70)
    assert locate(Loss("G803", "unused", "", changes, own), of) == own


@pytest.mark.parametrize("change", [Feed(0, wait=False), Drop(("idle.data",))])
def test_a_loaders_line_is_where_it_was_made(change: Change) -> None:
    assert line(change) == LOADER_LINE
    assert line(Feed(7)) is None


def test_threads_of_the_process_lie_at_no_loaders_line() -> None:
    assert line(Feed(0, intra_op_threads=2)) is None
    assert line(Feed(0, intra_op_threads=1, num_workers=1)) == LOADER_LINE


def test_an_optimizers_line_is_where_it_was_made() -> None:
    assert line(Merge(("Optimizer.step#*",), 3)) == OPTIMIZER_LINE


def test_a_call_is_blamed_on_the_users_function_that_most_of_it_is_in() -> None:
    found = line(
        Omit(("aten::item",)),
        site("aten::item", "log", 30, line=20),
        site("aten::item", "main", 70, line=10),
        site("aten::add", "loss", 900, line=30),
        site("aten::item", "adamw", 900, file=TORCH),
    )
    assert found == Where("train.py", 10, "main")


def test_what_many_functions_share_is_blamed_on_the_one_that_calls_them() -> None:
    sites = [site("idle.host.python", f"f{at}", 10, line=at) for at in range(1, 4)]
    assert line(Hosted(("idle.host",), SAME), *sites) is None
    calls = [
        source("train.py", 3, "main", total=99),
        source("train.py", 8, "train", total=90),
        source(TORCH, 9, "step", total=60),
        source("train.py", 20, "loss", total=30),
    ]
    assert line(Hosted(("idle.host",), SAME), *sites, *calls) == Where("train.py", 8, "train")


def test_a_sampled_stack_gives_the_line_within_the_function() -> None:
    hot = HotLine("training", "/project/train.py", 17, "main", 40, 0.9)
    other = HotLine("training", "/project/train.py", 5, "other", 90, 0.9)
    worker = HotLine("worker", "/project/train.py", 18, "main", 90, 0.9)
    change = Drop(("idle.sync",))
    found = line(change, site("idle.sync.return", "main", 70), worker, other, hot)
    assert found == Where("/project/train.py", 17, "main")


def test_a_function_that_had_begun_before_the_window_is_not_named_by_where_it_stood() -> None:
    hot = HotLine("training", "/project/train.py", 17, "main", 40, 0.9)
    change = Drop(("idle.sync",))
    stood = site("idle.sync.return", "main", 70, line=59)  # at the optimizer's step
    begun = source("train.py", 59, "main", calls=0, total=9)
    assert line(change, stood, hot) == Where("train.py", 59, "main")  # another, of the same name
    assert line(change, stood, hot, begun) == Where("/project/train.py", 17, "main")


def test_calls_that_python_sees_have_their_own_line() -> None:
    mine = SyncUse("train.py", 77, "main", 10, 1000, 1.0, 100.0)
    theirs = SyncUse(TORCH, 5, "step", 10, 9000, 1.0, 100.0)
    sites = site("cudaStreamSynchronize", "main", 70)
    assert line(Omit(("torch.cuda.synchronize",)), theirs, mine, sites) == Where(
        "train.py", 77, "main"
    )
    assert line(Omit(("aten::item",)), mine) is None
    told = Where("train.py", 99)
    assert line(Omit(("aten::item",), told), mine) == told


def test_copies_and_kernels_are_blamed_on_who_calls_their_operators() -> None:
    assert line(Copied(pinned=True), site("aten::to", "main", 70)) == Where("train.py", 10, "main")
    launched = kernel("sgemm", calls=10, ms=5.0, leaf="busy.math", operator="aten::mm")
    scaled = Scale(SAME, ("busy.math",))
    assert line(scaled, launched, site("aten::mm", "forward", 70, line=30)) == Where(
        "train.py", 30, "forward"
    )
    assert line(Scale(SAME, names=("other",)), launched) is None


def test_of_several_loaders_the_one_that_was_waited_for_most_is_meant() -> None:
    other = Where("train.py", 45)
    of = seen(
        gpu(loader(waited_ns=5), fed(id=1, where=other, waited_ns=9)),
        {"busy.math": 50, "idle.data.decode": 50},
    )
    assert locate(Loss("G901", "slow", "", (Drop(("idle.data",)),)), of) == other
