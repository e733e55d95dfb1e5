"""What is tried where nothing is named, and what is expected of it."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.examples.example_facts import gpu, loader, worker_loader
from gapless.model.edit import Applicability, Proposal
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.store.run.recordings import load
from gapless.verify.requests import StudyForecast, TrialRequest, choose_candidates
from gapless.verify.trial import forecast_study
from tests.traces import recorded_run

FACTS = gpu(loader())


def propose_all(*texts: str, facts: Facts = FACTS) -> tuple[Proposal, ...]:
    return tuple(proposal for text in texts for proposal in listing.propose_named(text, facts))


def choose_fixes(*proposals: Proposal, facts: Facts = FACTS, risky: bool = False) -> list[str]:
    shortlist = choose_candidates(
        TrialRequest(proposed=True, risky=risky), facts, StudyForecast(proposals)
    )
    return ["+".join(candidate.fixes) for candidate in shortlist.candidates]


def test_the_first_proposals_are_tried_each_by_itself() -> None:
    proposals = propose_all("more-workers=8", "pin-memory", "fused", "foreach")
    assert choose_fixes(*proposals) == ["more-workers", "pin-memory", "fused"]


def test_what_changes_results_is_tried_only_where_that_is_allowed() -> None:
    proposals = propose_all("bf16", "pin-memory")
    assert choose_fixes(*proposals) == ["pin-memory"]
    assert choose_fixes(*proposals, risky=True) == ["bf16", "pin-memory"]
    strict_shortlist = choose_candidates(
        TrialRequest(proposed=True, strict=True),
        FACTS,
        StudyForecast(propose_all("more-workers=8")),
    )
    assert [candidate.applicability for candidate in strict_shortlist.candidates][:1] == [
        Applicability.ABLATION
    ]


def test_what_is_predicted_to_give_nothing_is_not_tried() -> None:
    (proposal,) = propose_all("pin-memory")
    worse_proposal = replace(proposal, speedup=Estimate(0.9, 0.99, 1.1))
    assert choose_fixes(worse_proposal, *propose_all("more-workers=8")) == ["more-workers"]


def test_without_proposals_the_ceilings_are_tried() -> None:
    names = choose_fixes(facts=gpu(worker_loader()))
    assert names
    assert {"cached-batch", "cached-batch-on-device"} <= set(names)


def test_candidates_carry_what_is_expected_of_them_and_ablations_nothing() -> None:
    predicted_fixes: list[list[str]] = []

    def predict(proposals: Sequence[Proposal]) -> Estimate | None:
        predicted_fixes.append([proposal.fix for proposal in proposals])
        return Estimate(1.1, 1.2, 1.3)

    request = TrialRequest(fixes=("pin-memory", "cached-batch", "more-workers=4+one-thread"))
    candidates = choose_candidates(request, FACTS, StudyForecast((), predict)).candidates
    speedups_by_fixes = {candidate.fixes: candidate.predicted for candidate in candidates}
    assert speedups_by_fixes["pin-memory",] == Estimate(1.1, 1.2, 1.3)
    assert speedups_by_fixes["cached-batch",] is None
    assert ["more-workers", "one-thread"] in predicted_fixes


@pytest.mark.parametrize("trial_request", [TrialRequest(ceilings=True), TrialRequest()])
def test_of_ceilings_alone_nothing_is_expected(trial_request: TrialRequest) -> None:
    assert forecast_study(load(recorded_run()), trial_request, lambda _: None) == StudyForecast()


def test_a_run_is_studied_for_what_to_expect() -> None:
    forecast = forecast_study(load(recorded_run()), TrialRequest(proposed=True), lambda _: None)
    (more_workers,) = listing.propose_named("more-workers=8", FACTS)
    assert isinstance(forecast.proposals, tuple)
    assert forecast.predict([more_workers]) is None or forecast.predict([more_workers])
