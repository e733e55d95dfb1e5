"""What is tried where nothing is named, and what is expected of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gapless.catalogue import listing
from gapless.catalogue.examples import fed, gpu, loader
from gapless.model.edit import Applicability, Proposal
from gapless.model.facts import Facts
from gapless.model.interval import Interval
from gapless.store.recordings import load
from gapless.verify.trying import expected
from gapless.verify.wishes import Expected, Wish, choose

STORY = Path(__file__).parents[1] / "data/runs/2026-11-21T17-12-53-8a06"
FACTS = gpu(loader())


def proposed(*texts: str, facts: Facts = FACTS) -> tuple[Proposal, ...]:
    return tuple(one for text in texts for one in listing.propose(text, facts))


def chosen(*proposals: Proposal, facts: Facts = FACTS, risky: bool = False) -> list[str]:
    found = choose(Wish(proposed=True, risky=risky), facts, Expected(proposals))
    return ["+".join(one.fixes) for one in found.candidates]


def test_the_first_proposals_are_tried_each_by_itself() -> None:
    some = proposed("more-workers=8", "pin-memory", "fused", "foreach")
    assert chosen(*some) == ["more-workers", "pin-memory", "fused"]


def test_what_changes_results_is_tried_only_where_that_is_allowed() -> None:
    some = proposed("bf16", "pin-memory")
    assert chosen(*some) == ["pin-memory"]
    assert chosen(*some, risky=True) == ["bf16", "pin-memory"]
    strict = choose(Wish(proposed=True, strict=True), FACTS, Expected(proposed("more-workers=8")))
    assert [one.applicability for one in strict.candidates][:1] == [Applicability.TRIAL]


def test_what_is_predicted_to_give_nothing_is_not_tried() -> None:
    (one,) = proposed("pin-memory")
    worse = replace(one, speedup=Interval(0.9, 0.99, 1.1))
    assert chosen(worse, *proposed("more-workers=8")) == ["more-workers"]


def test_without_proposals_the_ceilings_are_tried() -> None:
    names = chosen(facts=gpu(fed()))
    assert names
    assert {"cached-batch", "cached-batch-on-device"} <= set(names)


def test_candidates_carry_what_is_expected_of_them_and_ablations_nothing() -> None:
    asked: list[list[str]] = []

    def foretell(some: Sequence[Proposal]) -> Interval | None:
        asked.append([one.fix for one in some])
        return Interval(1.1, 1.2, 1.3)

    wish = Wish(fixes=("pin-memory", "cached-batch", "more-workers=4+one-thread"))
    found = choose(wish, FACTS, Expected((), foretell)).candidates
    known = {one.fixes: one.predicted for one in found}
    assert known["pin-memory",] == Interval(1.1, 1.2, 1.3)
    assert known["cached-batch",] is None
    assert ["more-workers", "one-thread"] in asked


@pytest.mark.parametrize("wish", [Wish(ceilings=True), Wish()])
def test_of_ceilings_alone_nothing_is_expected(wish: Wish) -> None:
    assert expected(load(STORY), wish, lambda _: None) == Expected()


def test_a_run_is_studied_for_what_to_expect() -> None:
    found = expected(load(STORY), Wish(proposed=True), lambda _: None)
    (workers,) = listing.propose("more-workers=8", FACTS)
    assert isinstance(found.proposals, tuple)
    assert found.foretell([workers]) is None or found.foretell([workers])
