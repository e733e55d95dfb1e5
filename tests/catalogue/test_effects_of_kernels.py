"""What fixes of kernels, checkpoints, logging, memory change; how close a run is to its limit."""

import pytest

from gapless.catalogue import examples, listing
from gapless.catalogue.effects import EFFECTS
from gapless.catalogue.outlook import outlook
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.catalogue.work_examples import amx, h200, worked
from gapless.model.change import Change, Drop, Hosted, Omit, Scale
from gapless.model.seen import Seen
from gapless.replay.roofline import SAME

LARGE = ((8192, 8192), (8192, 8192))
SIMT = "busy.tc_eligible_not_used"
CONV = worked(
    "aten::cudnn_convolution",
    ((64, 64, 56, 56), (64, 64, 3, 3)),
    2,
    "busy.tc_math",
    dtype="bf16",
    calls=4,
    concrete=("", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"),
)


def run(*parts: object, **settings: object) -> Seen:
    return stated(examples.gpu(examples.precision(**settings)), {SIMT: 50}, *parts, h200())


def effect(text: str, of: Seen) -> tuple[Change, ...] | None:
    assert of.facts is not None
    (proposal, *_) = listing.propose(text, of.facts)
    return EFFECTS[proposal.fix](of, proposal)


def test_tf32_is_about_products_and_of_convolutions_where_these_are_not_so_yet() -> None:
    product = worked("aten::mm", LARGE, 23, SIMT)
    conv = worked("aten::cudnn_convolution", ((64, 64, 56, 56), (64, 64, 3, 3)), 9, "busy.math")
    only = effect("tf32", run(product, conv)) or ()
    assert [one.leaves for one in only if isinstance(one, Scale)] == [(SIMT,)]
    both = effect("tf32", run(product, conv, allow_tf32_conv=False)) or ()
    assert {leaf for one in both if isinstance(one, Scale) for leaf in one.leaves} == {
        SIMT,
        "busy.math",
    }


def test_tf32_on_processors_is_to_be_tried() -> None:
    row = worked("aten::addmm", ((512, 1024), (1024, 1024)), 90, "busy.math", launches=0)
    assert effect("tf32", stated(examples.cpu(), {"busy.math": 90}, row)) is None


def test_half_precision_is_faster_on_the_device_and_slower_on_the_host() -> None:
    changes = effect("bf16", run(worked("aten::mm", LARGE, 23, SIMT), operator("aten::mm", 1, 1)))
    assert changes is not None
    kinds = {type(one) for one in changes}
    assert kinds == {Scale, Hosted}


def test_half_precision_on_processors_is_to_be_tried_where_it_was_not_measured() -> None:
    row = worked("aten::linear", ((512, 1024), (1024, 1024)), 90, "busy.math", launches=0)
    unknown = stated(examples.cpu(), {"busy.math": 90}, row)
    known = stated(
        examples.cpu(examples.machine(device=None, intra_op_threads=16)),
        {"busy.math": 90},
        row,
        amx(),
    )
    assert effect("bf16", unknown) is None
    assert effect("bf16", known)


def test_benchmarking_is_about_convolutions_alone() -> None:
    found = effect("cudnn-benchmark", run(worked("aten::mm", LARGE, 23, SIMT))) or ()
    assert [one.factor for one in found if isinstance(one, Scale)] == [SAME]
    found = effect("cudnn-benchmark", run(CONV)) or ()
    factors = [one.factor for one in found if isinstance(one, Scale)]
    assert [one.high >= 1 > one.mid for one in factors] == [True]


@pytest.mark.parametrize("fix", ["tf32", "bf16", "channels-last", "cudnn-benchmark"])
def test_nothing_is_known_where_no_window_tells_of_operators(fix: str) -> None:
    assert effect(fix, run()) is None


@pytest.mark.parametrize("fix", ["compile", "compile-reduce-overhead", "allocator"])
def test_what_is_to_be_tried_has_no_effect(fix: str) -> None:
    assert fix not in EFFECTS


@pytest.mark.parametrize(
    ("text", "leaf", "keep"),
    [
        ("checkpoint-every=4", "idle.io_main.checkpoint", 0.25),
        ("log-every=10", "idle.io_main.logging", 0.1),
        ("evaluate-every=2", "idle.io_main.eval", 0.5),
        ("no-evaluation", "idle.io_main.eval", 0.0),
    ],
)
def test_what_is_done_less_often_keeps_its_share(text: str, leaf: str, keep: float) -> None:
    of = stated(examples.gpu(checkpoint=9, logging=9, evaluation=9), {"busy.math": 9})
    assert effect(text, of) == (Drop((leaf,), keep=keep),)


def test_a_cache_that_is_not_emptied_asks_the_driver_for_nothing() -> None:
    found = effect("no-empty-cache", stated(examples.gpu(empty_cache=9), {"busy.math": 9})) or ()
    assert ["cudaFree" in one.names for one in found if isinstance(one, Omit)] == [True]


def test_outlook_says_how_close_kernels_come_to_the_machine() -> None:
    of = run(worked("aten::mm", LARGE, 50, SIMT, calls=2))
    assert outlook(of) == (
        "its kernels come to 88 % of what the machine can do, as measured at another time "
        "(products in fp32 at 88 % of 50 TFLOP/s)"
    )


def test_outlook_is_silent_without_inputs_or_peaks() -> None:
    unknown = worked("aten::index", ((64, 64),), 50, "busy.index")
    assert outlook(run(unknown)) is None
    old = examples.gpu(examples.machine(capability=(3, 5), device="Tesla K80"))
    assert outlook(stated(old, {SIMT: 50}, worked("aten::mm", LARGE, 50, SIMT))) is None
