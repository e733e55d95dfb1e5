"""From losses to findings, and from findings to proposals that were predicted together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from gapless.catalogue.effects import Effect
from gapless.catalogue.examples import LOADER_LINE, cpu, gpu, loader
from gapless.catalogue.ruling import NotSeenError, Rule
from gapless.catalogue.seen_examples import seen, stepped
from gapless.model.change import Change, Copied, Feed, Omit, Predicted
from gapless.model.edit import Applicability, Proposal, Where
from gapless.model.facts import Loader
from gapless.model.finding import Diagnosis, Loss, Rehearsal
from gapless.model.host_code import HostCode, HotLine
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.study.ceilings import Ceilings
from gapless.study.concluding import conclude, prices_of
from gapless.study.diagnose import diagnose
from gapless.study.price import Prices
from gapless.study.propose import foretold, propose
from gapless.study.replaying import Silent

AT = Where("/job/train.py", 7, "main")
WAITS = seen(gpu(loader()), {"busy.math": 40, "idle.data.decode": 50, "idle.sync.return": 10})
_GIVES = {"feed": 2.0, "copied": 1.1, "omit": 1.001}


@dataclass(frozen=True)
class Product:
    """Gives for several changes the product of what each gives by itself."""

    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        kinds = {str(one.__struct_config__.tag) for one in changes}
        mid = 1.0
        for kind in kinds:
            mid *= _GIVES.get(kind, 1.0)
        return Predicted(Interval(mid * 0.999, mid, mid * 1.001), "feed")

    def account(self, changes: Sequence[Change]) -> None:
        del changes  # it plays no traces


class Vague(Product):
    """Gives for anything a middle that is worth it, and a low end that is not."""

    def play(self, changes: Sequence[Change]) -> Predicted:
        del changes  # it is the same for all
        return Predicted(Interval(1.01, 1.3, 1.6), "feed")


def prices(of: Seen = WAITS) -> Prices:
    return Prices(of, Product(), Ceilings())


def rule_of(code: str, *changes: Change, helps: Sequence[str] = ()) -> Rule:
    def check(seen: Seen) -> Loss | None:
        del seen
        return made.loss(f"It is {code}.", *changes, helps=helps)

    made = Rule(code, f"fault-{code.lower()}", "0.1", (), "", check)
    return made


FEEDS = rule_of("G901", Feed(0, wait=False), helps=("more-workers=8", "pin-memory"))
COPIES = rule_of("G902", Copied(pinned=True), helps=("pin-memory",))
READS = rule_of("G903", Omit(("aten::item",)), helps=("no-synchronize",))


def test_findings_come_by_their_worth_and_what_costs_nothing_is_harmless() -> None:
    found = diagnose(prices(), (READS, COPIES, FEEDS))
    assert [one.loss.code for one in found.findings] == ["G901", "G902"]
    assert [one.loss.code for one in found.present] == ["G903"]
    assert found.findings[0].loss.where == LOADER_LINE
    assert found.outlook is None
    assert not found.provisional


def test_what_has_no_price_is_named_by_what_is_charged_to_it() -> None:
    silent = Prices(WAITS, Silent("why not"), Ceilings())
    found = diagnose(silent, (FEEDS, COPIES))
    (one,) = found.findings
    assert (one.loss.code, one.share, one.predicted.speedup) == ("G901", pytest.approx(0.5), None)
    assert [each.asked for each in one.remedies] == ["more-workers=8", "pin-memory"]
    assert [each.predicted.refused for each in found.present] == ["why not"]
    assert found.outlook is None


def test_where_rules_could_not_look_the_outlook_is_no_all_clear() -> None:
    blind = Rule("G904", "blind", "0.1", (), "", _needs_a_loader)
    found = diagnose(prices(seen(gpu(), {"busy.math": 50, "idle.data.decode": 50})), (blind,))
    assert str(found.outlook).endswith(
        "what could be changed about it was not found (a rule could not be checked)"
    )


def test_of_a_thread_that_no_rule_explains_the_sampled_lines_are_told() -> None:
    run = seen(cpu(), {"busy.math": 40, "idle.host.python": 60})
    recorded = run.study.recorded
    assert recorded is not None
    lines = tuple(HotLine("training", "/job/rl.py", at, "act", 9, 0.5 / at) for at in (1, 2, 9))
    stacks = replace(run.study, recorded=replace(recorded, lines=lines))
    found = diagnose(prices(replace(run, study=stacks)), ())
    assert found.outlook == (
        "60 % of each step the training thread spends outside operators, mostly in Python code; "
        "40 % is computing; stacks sampled in all steps stood mostly at rl.py:1 (50 %) and "
        "rl.py:2 (25 %)"
    )


def test_lines_at_which_operators_run_are_not_told_of_what_lies_between_them() -> None:
    run = seen(cpu(), {"busy.math": 40, "idle.host.python": 60})
    recorded = run.study.recorded
    assert recorded is not None
    lines = (HotLine("training", "/job/rl.py", 74, "train", 9, 0.5),)
    code = (HostCode("python", 0.2, 1.0, "/job/rl.py", 21, "act", None, 0.2, 200),)
    told = replace(recorded, lines=lines, host_code=code)
    found = diagnose(prices(replace(run, study=replace(run.study, recorded=told))), ())
    assert found.outlook is not None
    assert found.outlook.endswith(
        "stacks sampled outside operators stood mostly at rl.py:21 (20 %)"
    )


def _needs_a_loader(seen: Seen) -> Loss | None:
    raise NotSeenError("stages", str(seen.step_ns))


def test_a_rule_that_cannot_look_abstains() -> None:
    def check(seen: Seen, loader: Loader) -> Loss | None:
        raise NotSeenError("stages", f"{len(seen.study.sites)} of {loader.dataset}")

    blind = Rule("G904", "blind", "0.1", (), "", check)
    (one,) = diagnose(prices(), (blind,)).abstentions
    assert (one.code, one.missing, one.reason) == ("G904", "stages", "0 of __main__.Images")


def test_a_rule_that_fails_is_a_mistake_of_ours() -> None:
    def check(seen: Seen) -> Loss | None:
        raise ZeroDivisionError(seen)

    with pytest.raises(ZeroDivisionError):
        diagnose(prices(), (Rule("G905", "wrong", "0.1", (), "", check),))


def test_steps_that_vary_do_not_keep_a_cause_from_being_named() -> None:
    of = seen(gpu(loader()), {"busy.math": 40, "idle.data.decode": 60})
    found = diagnose(prices(stepped(of, noise=0.94)), (FEEDS,))
    assert [one.loss.code for one in found.findings] == ["G901"]


def test_a_likely_cause_that_is_mended_by_hand_is_named_if_much_is_charged_to_it() -> None:
    def check(seen: Seen) -> Loss | None:
        del seen
        changes = (Copied(pinned=True), Feed(0, wait=False))
        return made.loss("It is slow.", *changes, where=AT, no_remedy="write it anew")

    made = Rule("G904", "slow-code", "0.1", (), "", check)
    (one,) = diagnose(Prices(WAITS, Vague(), Ceilings()), (made,)).findings
    assert (one.loss.no_remedy, one.share) == ("write it anew", pytest.approx(0.5))
    assert one.predicted.speedup is not None


def test_without_steps_there_is_no_outlook() -> None:
    assert diagnose(prices(seen(None, {})), ()).outlook is None


# ── Proposals ───────────────────────────────────────────────────────────────────────────────────


def feeds(seen: Seen, proposal: Proposal) -> tuple[Change, ...] | None:
    del seen
    return (Feed(0, num_workers=8),) if proposal.edits else None


def copies(seen: Seen, proposal: Proposal) -> tuple[Change, ...] | None:
    del seen, proposal
    return (Copied(pinned=True),)


EFFECTS: dict[str, Effect] = {"more-workers": feeds, "pin-memory": copies}


def proposals(of: Seen = WAITS, *rules: Rule) -> tuple[Proposal, ...]:
    worth = prices(of)
    return propose(worth, diagnose(worth, rules or (FEEDS, COPIES)), EFFECTS)


def test_the_first_proposal_gains_most_and_the_next_are_predicted_with_it() -> None:
    first, second = proposals()
    assert (first.fix, first.after, first.remedies) == ("more-workers", (), ("G901",))
    assert first.speedup is not None
    assert first.speedup.mid == pytest.approx(2.0)
    assert (second.fix, second.after) == ("pin-memory", ("more-workers",))
    assert second.remedies == ("G901", "G902")
    assert second.speedup is not None
    assert second.speedup.mid == pytest.approx(1.1)
    assert second.together is not None
    assert second.together.mid == pytest.approx(2.2)


def test_what_another_fix_does_already_adds_nothing() -> None:
    both = rule_of("G907", Copied(pinned=True), helps=("non-blocking", "pin-memory"))
    worth = prices()
    effects = {**EFFECTS, "non-blocking": copies}
    first, second = propose(worth, diagnose(worth, (both,)), effects)
    assert (first.fix, second.fix) == ("non-blocking", "pin-memory")
    assert second.after == ("non-blocking",)
    assert second.together == first.speedup


def test_refusals_are_kept_with_their_reason() -> None:
    iterable = loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False)
    of = seen(gpu(iterable), {"busy.math": 40, "idle.data.decode": 60})
    *_, last = proposals(of)
    assert last.fix == "more-workers"
    assert last.refused is not None
    assert "every sample" in last.refused


def test_what_no_effect_is_known_of_is_to_be_tried() -> None:
    (one,) = proposals(WAITS, rule_of("G906", Feed(0, wait=False), helps=("persistent-workers",)))
    assert one.refused is not None  # there are no workers
    (compiled,) = proposals(WAITS, rule_of("G906", Feed(0, wait=False), helps=("compile",)))
    assert (compiled.speedup, compiled.unpredicted) == (
        None,
        "what it gives is not known before it is tried",
    )


def test_what_may_change_results_comes_after_what_does_not() -> None:
    named = rule_of("G906", Feed(0, wait=False), helps=("bf16", "more-workers=8"))
    worth = prices()
    effects = {**EFFECTS, "bf16": feeds}
    found = propose(worth, diagnose(worth, (named,)), effects)
    assert [one.applicability for one in found][-1] is Applicability.RISKY
    assert found[0].fix == "more-workers"


def test_of_a_foreign_trace_nothing_is_proposed() -> None:
    assert proposals(seen(None, {"busy.math": 40, "idle.data.decode": 60})) == ()


def test_edits_are_foretold_together_or_not_at_all() -> None:
    first, second = proposals()
    both = foretold(prices(), [first, second], EFFECTS)
    assert both.speedup is not None
    assert both.speedup.mid == pytest.approx(2.2)
    other = replace(first, fix="compile")
    refused = foretold(prices(), [first, other], EFFECTS)
    assert (refused.speedup, refused.refused) == (
        None,
        "compile: what it gives is not known before it is tried",
    )


def test_a_study_is_concluded_unless_it_has_no_account() -> None:
    done = conclude(prices_of(WAITS, Silent("why not")))
    assert isinstance(done.diagnosis, Diagnosis)
    empty = seen(None, {})
    assert conclude(prices_of(empty, Silent(""))) is empty.study


def test_a_short_run_is_provisional() -> None:
    assert diagnose(prices(stepped(WAITS, regular=20)), ()).provisional
