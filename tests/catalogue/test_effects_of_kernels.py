"""What fixes of kernels, checkpoints, logging, memory change; how close a run is to its limit."""

import pytest

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.listing import EFFECTS
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of as stated
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.examples.work import amx, example_work, h200
from gapless.catalogue.queries.outlook import describe_outlook
from gapless.model.change import Change, Drop, HostChange, Omit, Scale
from gapless.model.evidence import Evidence
from gapless.roofline.roofline import NO_CHANGE

LARGE = ((8192, 8192), (8192, 8192))
SIMT = "busy.tc_eligible_not_used"
CONV = example_work(
    "aten::cudnn_convolution",
    ((64, 64, 56, 56), (64, 64, 3, 3)),
    2,
    "busy.tc_math",
    dtype="bf16",
    calls=4,
    concrete=("", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"),
)


def make_evidence(*parts: object, **settings: object) -> Evidence:
    return stated(
        example_facts.gpu(example_facts.precision(**settings)), {SIMT: 50}, *parts, h200()
    )


def find_effect(text: str, evidence: Evidence) -> tuple[Change, ...] | None:
    assert evidence.facts is not None
    (proposal, *_) = listing.propose_named(text, evidence.facts)
    return EFFECTS[proposal.fix](evidence, proposal)


def test_tf32_is_about_products_and_of_convolutions_where_these_are_not_so_yet() -> None:
    product = example_work("aten::mm", LARGE, 23, SIMT)
    conv = example_work(
        "aten::cudnn_convolution", ((64, 64, 56, 56), (64, 64, 3, 3)), 9, "busy.math"
    )
    product_changes = find_effect("tf32", make_evidence(product, conv)) or ()
    assert [change.leaves for change in product_changes if isinstance(change, Scale)] == [(SIMT,)]
    all_changes = find_effect("tf32", make_evidence(product, conv, allow_tf32_conv=False)) or ()
    assert {
        leaf for change in all_changes if isinstance(change, Scale) for leaf in change.leaves
    } == {
        SIMT,
        "busy.math",
    }


def test_tf32_on_processors_is_to_be_tried() -> None:
    row = example_work("aten::addmm", ((512, 1024), (1024, 1024)), 90, "busy.math", launches=0)
    assert find_effect("tf32", stated(example_facts.cpu(), {"busy.math": 90}, row)) is None


def test_half_precision_is_faster_on_the_device_and_slower_on_the_host() -> None:
    changes = find_effect(
        "bf16", make_evidence(example_work("aten::mm", LARGE, 23, SIMT), operator("aten::mm", 1, 1))
    )
    assert changes is not None
    kinds = {type(change) for change in changes}
    assert kinds == {Scale, HostChange}


def test_half_precision_on_processors_is_to_be_tried_where_it_was_not_measured() -> None:
    row = example_work("aten::linear", ((512, 1024), (1024, 1024)), 90, "busy.math", launches=0)
    unmeasured = stated(example_facts.cpu(), {"busy.math": 90}, row)
    measured = stated(
        example_facts.cpu(example_facts.machine(device=None, intra_op_threads=16)),
        {"busy.math": 90},
        row,
        amx(),
    )
    assert find_effect("bf16", unmeasured) is None
    assert find_effect("bf16", measured)


def test_benchmarking_is_about_convolutions_alone() -> None:
    changes = (
        find_effect("cudnn-benchmark", make_evidence(example_work("aten::mm", LARGE, 23, SIMT)))
        or ()
    )
    assert [change.factor for change in changes if isinstance(change, Scale)] == [NO_CHANGE]
    changes = find_effect("cudnn-benchmark", make_evidence(CONV)) or ()
    factors = [change.factor for change in changes if isinstance(change, Scale)]
    assert [factor.high >= 1 > factor.mid for factor in factors] == [True]


@pytest.mark.parametrize("fix", ["tf32", "bf16", "channels-last", "cudnn-benchmark"])
def test_nothing_is_known_where_no_window_tells_of_operators(fix: str) -> None:
    assert find_effect(fix, make_evidence()) is None


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
    evidence = stated(example_facts.gpu(checkpoint=9, logging=9, evaluation=9), {"busy.math": 9})
    assert find_effect(text, evidence) == (Drop((leaf,), keep=keep),)


def test_a_cache_that_is_not_emptied_asks_the_driver_for_nothing() -> None:
    changes = (
        find_effect("no-empty-cache", stated(example_facts.gpu(empty_cache=9), {"busy.math": 9}))
        or ()
    )
    assert ["cudaFree" in change.names for change in changes if isinstance(change, Omit)] == [True]


def test_outlook_says_how_close_kernels_come_to_the_machine() -> None:
    evidence = make_evidence(example_work("aten::mm", LARGE, 50, SIMT, calls=2))
    assert describe_outlook(evidence) == (
        "its kernels come to 88 % of what the machine can do, as measured at another time "
        "(products in fp32 at 88 % of 50 TFLOP/s)"
    )


def test_outlook_is_silent_without_inputs_or_peaks() -> None:
    unknown_row = example_work("aten::index", ((64, 64),), 50, "busy.index")
    assert describe_outlook(make_evidence(unknown_row)) is None
    old_facts = example_facts.gpu(example_facts.machine(capability=(3, 5), device="Tesla K80"))
    assert (
        describe_outlook(stated(old_facts, {SIMT: 50}, example_work("aten::mm", LARGE, 50, SIMT)))
        is None
    )
