"""From losses to findings, and from findings to proposals that were predicted together."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gapless.catalogue.declare.fix import Effect
from gapless.catalogue.declare.listing import parse_request
from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.examples.evidence import evidence_of, with_steps
from gapless.catalogue.examples.example_facts import LOADER_LINE, cpu, gpu, loader
from gapless.model.change import Change, CopyChange, HostChange, LoaderChange, Omit, Prediction
from gapless.model.edit import Applicability, Location, Proposal
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Diagnosis
from gapless.model.host_code import HostCode, HotLine
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.conclude import conclude, prices_of
from gapless.pricing.diagnose import diagnose
from gapless.pricing.price import Prices
from gapless.pricing.propose import predict_together, propose_fixes
from gapless.pricing.simulators.simulator import RunSimulator
from tests.study.stand_in import StandIn

LOCATION = Location("/job/train.py", 7, "main")
WAITS = evidence_of(
    gpu(loader()), {"busy.math": 40, "idle.data.decode": 50, "idle.sync.return": 10}
)
_SPEEDUPS = {"feed": 2.0, "copied": 1.1, "omit": 1.001, "hosted": 0.9}


class ProductSimulator(StandIn, frozen=True):
    """Gives for several changes the product of what each gives by itself."""

    def play(self, changes: Sequence[Change]) -> Prediction:
        kinds = {str(change.__struct_config__.tag) for change in changes}
        mid = 1.0
        for kind in kinds:
            mid *= _SPEEDUPS.get(kind, 1.0)
        return Prediction(Estimate(mid * 0.999, mid, mid * 1.001), "feed")


class VagueSimulator(ProductSimulator, frozen=True):
    """Gives for anything a middle that is worth it, and a low end that is not."""

    def play(self, changes: Sequence[Change]) -> Prediction:
        del changes  # it is the same for all
        return Prediction(Estimate(1.01, 1.3, 1.6), "feed")


def prices(evidence: Evidence = WAITS) -> Prices:
    return Prices(evidence, ProductSimulator(), Ceilings())


def rule_of(code: str, *changes: Change, helps: Sequence[str] = ()) -> Rule:
    def check(evidence: Evidence) -> Detection | None:
        del evidence
        return rule.detection(f"It is {code}.", *changes, helps=[*map(parse_request, helps)])

    rule = Rule(code, f"fault-{code.lower()}", "0.1", "", "", check)
    return rule


LOADER_RULE = rule_of("G901", LoaderChange(0, wait=False), helps=("more-workers=8", "pin-memory"))
COPY_RULE = rule_of("G902", CopyChange(pinned=True), helps=("pin-memory",))
READ_RULE = rule_of("G903", Omit(("aten::item",)), helps=("no-synchronize",))


def test_findings_come_by_their_worth_and_what_costs_nothing_is_harmless() -> None:
    diagnosis = diagnose(prices(), (READ_RULE, COPY_RULE, LOADER_RULE))
    assert [finding.detection.code for finding in diagnosis.findings] == ["G901", "G902"]
    assert [finding.detection.code for finding in diagnosis.present] == ["G903"]
    assert diagnosis.findings[0].detection.location == LOADER_LINE
    assert diagnosis.outlook is None
    assert not diagnosis.provisional


def test_what_has_no_price_is_named_by_what_is_charged_to_it() -> None:
    silent = Prices(WAITS, RunSimulator(refusal="why not"), Ceilings())
    diagnosis = diagnose(silent, (LOADER_RULE, COPY_RULE))
    (finding,) = diagnosis.findings
    assert (finding.detection.code, finding.share, finding.prediction.speedup) == (
        "G901",
        pytest.approx(0.5),
        None,
    )
    assert [str(remedy.request) for remedy in finding.remedies] == ["more-workers=8", "pin-memory"]
    assert [finding.prediction.refused for finding in diagnosis.present] == ["why not"]
    assert diagnosis.outlook is None


def test_where_rules_could_not_look_the_outlook_is_no_all_clear() -> None:
    blind = Rule("G904", "blind", "0.1", "", "", _needs_a_loader)
    diagnosis = diagnose(
        prices(evidence_of(gpu(), {"busy.math": 50, "idle.data.decode": 50})), (blind,)
    )
    assert str(diagnosis.outlook).endswith(
        "nothing was found that could be changed about it (a rule could not be checked)"
    )


class UnsureSimulator(ProductSimulator, frozen=True):
    """Gives for anything a middle, and a low end that is less than nothing."""

    mid: float = 1.1

    def play(self, changes: Sequence[Change]) -> Prediction:
        del changes  # it is the same for all
        return Prediction(Estimate(0.9, self.mid, 1.3), "host")


@pytest.mark.parametrize(("mid", "is_named"), [(1.1, True), (1.03, False)])
def test_what_may_be_part_of_it_is_mentioned(*, mid: float, is_named: bool) -> None:
    for owner, words in (
        ("host.python", "fault-g903 may be part of it"),
        ("data.read", "a possible cause: fault-g903"),
    ):
        evidence = evidence_of(cpu(), {"busy.math": 40, f"idle.{owner}": 60})
        diagnosis = diagnose(Prices(evidence, UnsureSimulator(mid=mid), Ceilings()), (READ_RULE,))
        assert not diagnosis.findings
        assert str(diagnosis.outlook).endswith(f"; {words}") is is_named


def test_of_a_thread_that_no_rule_explains_the_sampled_lines_are_told() -> None:
    run = evidence_of(cpu(), {"busy.math": 40, "idle.host.python": 60})
    recorded = run.study.recorded
    assert recorded is not None
    lines = tuple(
        HotLine("training", "/job/rl.py", line, "act", 9, 0.5 / line) for line in (1, 2, 9)
    )
    study = replace(run.study, recorded=replace(recorded, lines=lines))
    diagnosis = diagnose(prices(replace(run, study=study)), ())
    assert diagnosis.outlook == (
        "60 % of each step the training thread spends outside operators, mostly in Python code; "
        "40 % is computing; stacks sampled in all steps stood mostly at rl.py:1 (50 %) and "
        "rl.py:2 (25 %)"
    )


def test_lines_at_which_operators_run_are_not_told_of_what_lies_between_them() -> None:
    run = evidence_of(cpu(), {"busy.math": 40, "idle.host.python": 60})
    recorded = run.study.recorded
    assert recorded is not None
    lines = (HotLine("training", "/job/rl.py", 74, "train", 9, 0.5),)
    code = (HostCode("python", 0.2, 1.0, "/job/rl.py", 21, "act", None, 0.2, 200),)
    with_code = replace(recorded, lines=lines, host_code=code)
    diagnosis = diagnose(prices(replace(run, study=replace(run.study, recorded=with_code))), ())
    assert diagnosis.outlook is not None
    assert diagnosis.outlook.endswith(
        "stacks sampled outside operators stood mostly at rl.py:21 (20 %)"
    )
    within = (HotLine("training", "/venv/site-packages/rl/agent.py", 55, "fit", 9, 0.4),)
    with_trainer = replace(with_code, trainer_lines=within)
    diagnosis = diagnose(prices(replace(run, study=replace(run.study, recorded=with_trainer))), ())
    assert diagnosis.outlook is not None
    assert diagnosis.outlook.endswith(
        "stacks sampled in all steps stood mostly at rl/agent.py:55 (40 %)"
    )


def _needs_a_loader(evidence: Evidence) -> Detection | None:
    raise NotObservedError("stages", str(evidence.step_ns))


def test_a_rule_that_cannot_look_abstains() -> None:
    def check(evidence: Evidence, loader: Loader) -> Detection | None:
        raise NotObservedError("stages", f"{len(evidence.study.sites)} of {loader.dataset}")

    blind = Rule("G904", "blind", "0.1", "", "", check)
    (abstention,) = diagnose(prices(), (blind,)).abstentions
    assert (abstention.code, abstention.missing, abstention.reason) == (
        "G904",
        "stages",
        "0 of __main__.Images",
    )


def test_a_rule_that_fails_is_a_mistake_of_ours() -> None:
    def check(evidence: Evidence) -> Detection | None:
        raise ZeroDivisionError(evidence)

    with pytest.raises(ZeroDivisionError):
        diagnose(prices(), (Rule("G905", "wrong", "0.1", "", "", check),))


def test_steps_that_vary_do_not_keep_a_cause_from_being_named() -> None:
    evidence = evidence_of(gpu(loader()), {"busy.math": 40, "idle.data.decode": 60})
    diagnosis = diagnose(prices(with_steps(evidence, noise=0.94)), (LOADER_RULE,))
    assert [finding.detection.code for finding in diagnosis.findings] == ["G901"]


def test_a_likely_cause_that_is_mended_by_hand_is_named_if_much_is_charged_to_it() -> None:
    def check(evidence: Evidence) -> Detection | None:
        del evidence
        changes = (CopyChange(pinned=True), LoaderChange(0, wait=False))
        return rule.detection("It is slow.", *changes, location=LOCATION, no_remedy="write it anew")

    rule = Rule("G904", "slow-code", "0.1", "", "", check)
    (finding,) = diagnose(Prices(WAITS, VagueSimulator(), Ceilings()), (rule,)).findings
    assert (finding.detection.no_remedy, finding.share) == ("write it anew", pytest.approx(0.5))
    assert finding.prediction.speedup is not None


def test_without_steps_there_is_no_outlook() -> None:
    assert diagnose(prices(evidence_of(None, {})), ()).outlook is None


# ── Proposals ───────────────────────────────────────────────────────────────────────────────────


def loader_effect(evidence: Evidence, proposal: Proposal) -> tuple[Change, ...] | None:
    del evidence
    return (LoaderChange(0, num_workers=8),) if proposal.edits else None


def copy_effect(evidence: Evidence, proposal: Proposal) -> tuple[Change, ...] | None:
    del evidence, proposal
    return (CopyChange(pinned=True),)


EFFECTS: dict[str, Effect] = {"more-workers": loader_effect, "pin-memory": copy_effect}


def proposals(evidence: Evidence = WAITS, *rules: Rule) -> tuple[Proposal, ...]:
    run_prices = prices(evidence)
    return propose_fixes(
        run_prices, diagnose(run_prices, rules or (LOADER_RULE, COPY_RULE)), EFFECTS
    )


def test_the_first_proposal_gains_most_and_the_next_are_predicted_with_it() -> None:
    best, second = proposals()
    assert (best.fix, best.after, best.remedies) == ("more-workers", (), ("G901",))
    assert best.speedup is not None
    assert best.speedup.mid == pytest.approx(2.0)
    assert (second.fix, second.after) == ("pin-memory", ("more-workers",))
    assert second.remedies == ("G901", "G902")
    assert second.speedup is not None
    assert second.speedup.mid == pytest.approx(1.1)
    assert second.together is not None
    assert second.together.mid == pytest.approx(2.2)


def test_what_another_fix_does_already_adds_nothing() -> None:
    rule = rule_of("G907", CopyChange(pinned=True), helps=("non-blocking", "pin-memory"))
    run_prices = prices()
    effects = {**EFFECTS, "non-blocking": copy_effect}
    best, second = propose_fixes(run_prices, diagnose(run_prices, (rule,)), effects)
    assert (best.fix, second.fix) == ("non-blocking", "pin-memory")
    assert second.after == ("non-blocking",)
    assert second.together == best.speedup


def test_refusals_are_kept_with_their_reason() -> None:
    iterable = loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)
    evidence = evidence_of(gpu(iterable), {"busy.math": 40, "idle.data.decode": 60})
    *_, refused_proposal = proposals(evidence)
    assert refused_proposal.fix == "more-workers"
    assert refused_proposal.refused is not None
    assert "every sample" in refused_proposal.refused


def test_what_is_foretold_to_take_longer_is_not_proposed() -> None:
    rule = rule_of("G906", LoaderChange(0, wait=False), helps=("pin-memory", "more-workers=8"))
    run_prices = prices()

    def slow_down(evidence: Evidence, proposal: Proposal) -> tuple[Change, ...] | None:
        del evidence, proposal
        return (HostChange(("idle.data.decode",), Estimate(0.9, 1.2, 1.5)),)

    effects: dict[str, Effect] = {**EFFECTS, "pin-memory": slow_down}
    (proposal,) = propose_fixes(run_prices, diagnose(run_prices, (rule,)), effects)
    assert proposal.fix == "more-workers"


def test_what_no_effect_is_known_of_is_to_be_tried() -> None:
    (proposal,) = proposals(
        WAITS, rule_of("G906", LoaderChange(0, wait=False), helps=("persistent-workers",))
    )
    assert proposal.refused is not None  # there are no workers
    (compile_proposal,) = proposals(
        WAITS, rule_of("G906", LoaderChange(0, wait=False), helps=("compile",))
    )
    assert (compile_proposal.speedup, compile_proposal.unpredicted) == (
        None,
        "its gain is not known before it is tried",
    )


def test_what_makes_stages_shorter_is_worth_all_of_them_at_most() -> None:
    evidence = evidence_of(gpu(loader(files="paths")), {"busy.math": 40, "idle.data.read": 60})
    rule = rule_of("G906", LoaderChange(0, wait=False), helps=("read-ahead",))
    (proposal,) = proposals(evidence, rule)
    assert proposal.speedup is None
    assert proposal.at_most is not None
    assert proposal.at_most.mid == pytest.approx(2.0)


def test_what_may_change_results_comes_after_what_does_not() -> None:
    rule = rule_of("G906", LoaderChange(0, wait=False), helps=("bf16", "more-workers=8"))
    run_prices = prices()
    effects = {**EFFECTS, "bf16": loader_effect}
    fixes = propose_fixes(run_prices, diagnose(run_prices, (rule,)), effects)
    assert [proposal.applicability for proposal in fixes][-1] is Applicability.RISKY
    assert fixes[0].fix == "more-workers"


def test_of_a_foreign_trace_nothing_is_proposed() -> None:
    assert proposals(evidence_of(None, {"busy.math": 40, "idle.data.decode": 60})) == ()


def test_edits_are_foretold_together_or_not_at_all() -> None:
    best, second = proposals()
    together = predict_together(prices(), [best, second], EFFECTS)
    assert together.speedup is not None
    assert together.speedup.mid == pytest.approx(2.2)
    compile_proposal = replace(best, fix="compile")
    refusal = predict_together(prices(), [best, compile_proposal], EFFECTS)
    assert (refusal.speedup, refusal.refused) == (
        None,
        "compile: its gain is not known before it is tried",
    )


def test_a_study_is_concluded_unless_it_has_no_account() -> None:
    concluded = conclude(prices_of(WAITS, RunSimulator(refusal="why not")))
    assert isinstance(concluded.diagnosis, Diagnosis)
    empty = evidence_of(None, {})
    assert conclude(prices_of(empty, RunSimulator(refusal=""))) is empty.study


def test_a_short_run_is_provisional() -> None:
    assert diagnose(prices(with_steps(WAITS, regular=20)), ()).provisional
