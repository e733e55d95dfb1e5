"""Every metric, on menus and answers made by hand: perfect, wrong, silent and alarmed tools."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import health_figures
from benchmarks.judging import figures, metrics
from benchmarks.judging.answers import (
    Answer,
    Recommendation,
    followed_line,
    matching_lines,
    value_of,
)
from benchmarks.judging.causes import against_of, causes_named
from benchmarks.judging.looking import RecordHealth
from benchmarks.judging.metrics import JudgedCases
from benchmarks.judging.records import (
    FAULTY,
    SOUND,
    UNDECIDED,
    MenuLine,
    Record,
    read_records,
    record_from_menu,
)
from benchmarks.judging.told import answer_from_json, answer_to_json, case_to_json, judge_again
from gapless.model.estimate import Estimate

ROOT = Path(__file__).parents[2]


def line(name: str, low: float, mid: float, high: float, **fields: object) -> MenuLine:
    value = float(name.partition("=")[2] or 0) or None
    defaults: dict[str, Any] = {
        "fix": name.partition("=")[0],
        "edits": ({"kind": "set_argument", "value": value},),
        "against": (),
        "family": "feed",
        "ceiling": False,
        "smallest_seen": 0.01,
    }
    defaults.update(fields)
    return MenuLine(name=name, speedup=Estimate(low, mid, high), **defaults)


def record(case_: str, truth: str, *lines: MenuLine, kind: str = "k") -> Record:
    return Record(case_, kind, truth, lines, Path("none"))


LOGGED = (frozenset({"logging"}),)
LOGGED_AND_HOOKED = (*LOGGED, frozenset({"hooks"}))
# Best: 8 workers. 16 are as good; pinning is worth 10 %; foreach nothing.
WORKERS = record(
    "workers",
    FAULTY,
    line("more-workers=8", 1.9, 2.0, 2.1),
    line("more-workers=1", 0.7, 0.8, 0.9),
    line("pin-memory", 1.08, 1.1, 1.12, family="copy"),
    line("foreach", 0.99, 1.0, 1.01, family="host"),
    line("cached-batch", 3.9, 4.0, 4.1, ceiling=True),
)
LOGGING = record(
    "logging",
    FAULTY,
    line("without-log", 1.2, 1.25, 1.3, fix=None, edits=(), against=LOGGED),
    line("tf32", 0.99, 1.0, 1.01, family="kernel"),
)
HEALTHY = record(
    "healthy",
    SOUND,
    line("more-workers=2", 0.98, 0.99, 1.0),
    line("tf32", 1, 1, 1.01, family="kernel"),
)
OPEN = record("open", UNDECIDED, line("more-workers=2", 0.9, 1.2, 1.5))
RECORDS = (WORKERS, LOGGING, HEALTHY, OPEN)


def exact_predictions(case_record: Record) -> Mapping[str, Estimate]:
    """Predict what was measured."""
    return {
        menu_line.name: menu_line.speedup
        for menu_line in case_record.lines
        if menu_line.speedup is not None
    }


def inverse_predictions(case_record: Record) -> Mapping[str, Estimate]:
    """Predict a loss for each gain, and surely."""
    return {
        name: Estimate(0.99 / speedup.mid, 1 / speedup.mid, 1.01 / speedup.mid)
        for name, speedup in exact_predictions(case_record).items()
    }


FEED = Recommendation("more-workers", 8.0)
TABLE: Mapping[str, Answer] = {
    "workers": Answer((FEED, Recommendation("pin-memory"))),
    "logging": Answer((Recommendation(causes=frozenset({"logging"})),)),
    "healthy": Answer(),
    "open": Answer(),
}
PERFECT: JudgedCases = [
    (case_record, Answer(TABLE[case_record.case].named, exact_predictions(case_record)))
    for case_record in RECORDS
]
WRONG: JudgedCases = [
    (
        case_record,
        Answer(
            (Recommendation("foreach"), Recommendation("tf32")), inverse_predictions(case_record)
        ),
    )
    for case_record in RECORDS
]
SILENT: JudgedCases = [(case_record, Answer()) for case_record in RECORDS]
REFUSING: JudgedCases = [(case_record, Answer(refused="no window")) for case_record in RECORDS]
ALARMED: JudgedCases = [
    (
        case_record,
        Answer(
            (
                FEED,
                Recommendation("pin-memory"),
                Recommendation("tf32"),
                Recommendation(causes=frozenset({"logging"})),
            )
        ),
    )
    for case_record in RECORDS
]


def test_the_best_remedy_counts_where_it_is_worth_naming() -> None:
    assert metrics.hit_share(PERFECT, 1) == metrics.CaseShare(2, 2)
    assert metrics.hit_share(WRONG, 3) == metrics.CaseShare(0, 2)
    assert metrics.hit_share(SILENT, 3) == metrics.CaseShare(0, 2)
    assert metrics.hit_share(ALARMED, 1) == metrics.CaseShare(1, 2)
    assert metrics.hit_share(ALARMED, 3) == metrics.CaseShare(1, 2)  # it is the fourth
    assert metrics.hit_share(ALARMED, 4) == metrics.CaseShare(2, 2)
    assert metrics.hit_share([], 1).value is None


def test_the_right_setting_with_a_harmful_value_is_no_hit() -> None:
    assert metrics.hit_share([(WORKERS, Answer((FEED,)))], 1).value == 1
    one_worker = Recommendation("more-workers", 1.0)
    assert metrics.hit_share([(WORKERS, Answer((one_worker,)))], 1).value == 0


def test_a_remedy_within_the_interval_of_the_best_is_as_good() -> None:
    close_record = record("near", FAULTY, line("tf32", 1.3, 1.5, 1.7), line("bf16", 1.2, 1.35, 1.5))
    assert {menu_line.name for menu_line in close_record.acceptable} == {"tf32", "bf16"}
    assert metrics.hit_share([(close_record, Answer((Recommendation("bf16"),)))], 1).value == 1
    distant = record("apart", FAULTY, line("tf32", 1.4, 1.5, 1.7), line("bf16", 1.2, 1.35, 1.5))
    assert metrics.hit_share([(distant, Answer((Recommendation("bf16"),)))], 1).value == 0


def test_what_was_not_shown_to_gain_is_never_the_best() -> None:
    wide = record("wide", FAULTY, line("bf16", 0.1, 9.0, 99), line("tf32", 1.1, 1.2, 1.3))
    assert wide.best == wide.lines[1]


def test_ceilings_and_joint_lines_are_no_remedies() -> None:
    joint = line("both", 3, 3, 3, fix=None, edits=(), against=LOGGED_AND_HOOKED)
    joint_record = record("joint", FAULTY, joint, line("tf32", 1.1, 1.2, 1.3))
    assert joint_record.best == joint_record.lines[1]
    assert WORKERS.best == WORKERS.lines[0]
    recommendation = Recommendation(causes=frozenset({"logging"}))
    assert matching_lines(joint_record, recommendation) == ()


def test_regret_is_what_is_left_of_the_best() -> None:
    assert metrics.regrets(PERFECT) == [0.0, 0.0, 0.0]
    half, fifth, nothing = metrics.regrets(SILENT)
    assert (half, fifth, nothing) == (pytest.approx(0.5), pytest.approx(0.2), 0.0)
    assert metrics.regrets(WRONG)[0] == pytest.approx(0.5)
    assert metrics.regrets(REFUSING) == metrics.regrets(SILENT)
    harmful = [(WORKERS, Answer((Recommendation("more-workers", 1.0),)))]
    assert metrics.regrets(harmful) == [pytest.approx(0.6)]
    assert metrics.regrets([(HEALTHY, Answer((FEED,)))]) == [pytest.approx(0.01)]


def test_what_is_not_on_the_menu_is_neither_right_nor_a_remedy() -> None:
    unknown: JudgedCases = [(WORKERS, Answer((Recommendation("numa"), FEED)))]
    assert metrics.off_menu_share(unknown) == metrics.CaseShare(1, 1)
    assert metrics.off_menu_share(SILENT) == metrics.CaseShare(0, 0)
    assert metrics.hit_share(unknown, 1).value == 0
    assert metrics.hit_share(unknown, 3).value == 1
    assert metrics.regrets(unknown) == [pytest.approx(0.5)]


def test_alarms_are_false_on_sound_cases_only() -> None:
    for silent in (PERFECT, SILENT, REFUSING):
        assert metrics.false_alarms(silent) == metrics.CaseShare(0, 1)
    for loud in (WRONG, ALARMED):
        assert metrics.false_alarms(loud) == metrics.CaseShare(1, 1)


def test_recommendations_that_were_measured_to_be_harmless_count_per_report() -> None:
    assert metrics.false_per_report(PERFECT) == 0
    assert metrics.false_per_report(SILENT) == 0
    # foreach in WORKERS, tf32 in LOGGING and HEALTHY; of the open case none is known
    assert metrics.false_per_report(WRONG) == pytest.approx(3 / 4)
    assert metrics.harmless_named(PERFECT) == metrics.CaseShare(0, 5)
    # of more-workers=1 and foreach, tf32, more-workers=2 and tf32
    assert metrics.harmless_named(ALARMED) == metrics.CaseShare(3, 5)


def test_silence_is_an_answer_and_a_refusal_is_none() -> None:
    assert metrics.answered_share(SILENT).value == 1
    assert metrics.answered_share(REFUSING).value == 0


def test_gains_are_judged_in_points_and_in_rate() -> None:
    misses = metrics.gain_misses(
        [(WORKERS, Answer(predicted={"more-workers=8": Estimate(1, 4, 5)}))]
    )
    (miss,) = misses
    assert miss.points == pytest.approx(75 - 50)
    assert miss.rate == pytest.approx(1.0)
    assert metrics.mean_error(misses) == pytest.approx(25)
    assert metrics.bias(misses) == pytest.approx(25)
    low = metrics.gain_misses([(WORKERS, Answer(predicted={"more-workers=8": Estimate(1, 1, 1)}))])
    assert metrics.bias([*misses, *low]) == pytest.approx((25 - 50) / 2)
    assert metrics.mean_error([*misses, *low]) == pytest.approx((25 + 50) / 2)
    assert metrics.rate_error(low) == pytest.approx(0.5)


def test_a_tool_that_knows_all_has_no_error_and_one_that_knows_nothing_none_to_tell() -> None:
    perfect, wrong = metrics.gain_misses(PERFECT), metrics.gain_misses(WRONG)
    assert len(perfect) == len(wrong) == 10
    assert metrics.mean_error(perfect) == 0
    assert (metrics.mean_error(wrong) or 0) > 20
    assert metrics.signs(perfect).value == 1
    assert metrics.signs(wrong).value == 0
    assert metrics.covered_share(perfect).value == 1
    assert (metrics.covered_share(wrong).value or 0) < 0.7  # a gain of nothing is its own opposite
    assert metrics.mean_error(metrics.gain_misses(SILENT)) is None
    assert metrics.predicted_share(SILENT).value == 0
    assert metrics.predicted_share(PERFECT).value == 1


def test_lines_that_could_not_show_a_small_effect_judge_no_gain() -> None:
    vague = record("vague", FAULTY, line("tf32", 1.1, 1.2, 1.3, smallest_seen=0.06))
    assert metrics.gain_misses([(vague, Answer(predicted=exact_predictions(vague)))]) == []
    assert metrics.predicted_share([(vague, Answer(predicted=exact_predictions(vague)))]).total == 0


def test_signs_are_of_gains_that_are_clear() -> None:
    answer = Answer(predicted={"foreach": Estimate(1, 1.5, 2), "pin-memory": Estimate(1, 1.3, 2)})
    assert metrics.signs(metrics.gain_misses([(WORKERS, answer)])) == metrics.CaseShare(1, 1)


def test_families_part_kernels_from_structure() -> None:
    by_family = metrics.by_family(metrics.gain_misses(PERFECT))
    assert {name: len(family_misses) for name, family_misses in by_family.items()} == {
        "structural": 8,
        "kernels": 2,
        "feed": 6,
        "copy": 1,
        "host": 1,
        "kernel": 2,
    }


def test_an_interval_pays_for_its_width_and_for_what_it_misses() -> None:
    def misses_of(low: float, high: float) -> list[metrics.Miss]:
        middle = (low * high) ** 0.5
        predicted = {"more-workers=8": Estimate(low, middle, high)}
        return metrics.gain_misses([(WORKERS, Answer(predicted=predicted))])

    hit, missed = misses_of(1.6, 4.0), misses_of(1.0, 1.25)
    assert metrics.width(hit) == pytest.approx(75 - 37.5)
    assert metrics.winkler(hit) == pytest.approx(75 - 37.5)
    assert metrics.winkler(missed) == pytest.approx(20 + 20 * (50 - 20))
    assert metrics.covered_share(hit).value == 1
    assert metrics.covered_share(missed).value == 0


def test_ranks_agree_disagree_or_cannot_be_compared() -> None:
    assert metrics.kendall(PERFECT)[0] == pytest.approx(1)
    assert (metrics.kendall(WRONG)[0] or 0) == pytest.approx(-1)
    assert metrics.kendall(SILENT) == (None, 0)
    assert metrics.tau_b([(1, 1), (2, 3), (3, 2)]) == pytest.approx(1 / 3)
    assert metrics.tau_b([(1, 1), (1, 2), (2, 3)]) == pytest.approx(2 / 6**0.5)
    assert metrics.tau_b([(1, 1), (1, 2)]) is None


def test_a_share_of_nothing_is_not_known() -> None:
    assert figures.figure_table([])["regret_mean"] is None
    assert metrics.quantile([], 0.9) is None
    assert metrics.quantile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9) == 9
    assert metrics.quantile([3], 0.9) == 3


def test_no_tool_is_best_at_everything_but_the_perfect_one() -> None:
    tables = {
        name: figures.figure_table(judged)
        for name, judged in (("perfect", PERFECT), ("wrong", WRONG), ("alarmed", ALARMED))
    }
    assert tables["perfect"]["regret_mean"] == 0
    assert tables["wrong"]["regret_mean"] != 0
    assert tables["alarmed"]["false_per_report"] != 0


# ── What an answer means on a menu ──────────────────────────────────────────────────────────────


def test_a_value_means_the_nearest_line_and_of_two_as_near_the_worse() -> None:
    two_lines = record(
        "both", FAULTY, line("more-workers=4", 1, 2, 3), line("more-workers=16", 1, 1.5, 3)
    )
    for value, expected in ((5, "more-workers=4"), (12, "more-workers=16"), (8, "more-workers=16")):
        followed = followed_line(two_lines, Recommendation("more-workers", value))
        assert followed is not None
        assert followed.name == expected
    assert followed_line(two_lines, Recommendation("prefetch", 4)) is None


def test_the_first_number_of_an_edit_is_its_value() -> None:
    assert value_of(({"value": True}, {"value": 4})) == 4
    assert value_of(({"kind": "skip"},)) is None


def test_variants_and_findings_are_put_into_the_same_words() -> None:
    assert against_of("language-naive-attention-c", "naive") == ({"attention"},)
    assert len(against_of("control-anomaly-hooks-c", "both")) == 2
    assert against_of("forecast", "history") == ({"logging"},)
    assert "attention" in causes_named("unfused-attention")
    assert "checkpoints" not in causes_named("checkpointing-needlessly")
    assert causes_named("something-new") == frozenset()


# ── What is kept ────────────────────────────────────────────────────────────────────────────────


def test_an_answer_is_kept_whole() -> None:
    for _, answer in (*PERFECT, *REFUSING):
        assert answer_from_json(answer_to_json(answer)) == answer


def test_a_kept_result_can_be_judged_again() -> None:
    document = {
        "cases": {
            case_record.case: case_to_json(case_record, answer)
            for case_record, answer in PERFECT[:2]
        }
    }
    judged = judge_again(document, RECORDS)
    assert [case_record.case for case_record, _ in judged] == ["workers", "logging"]
    assert figures.figure_table(judged) == figures.figure_table(PERFECT[:2])


def test_truth_is_read_from_the_menu_and_as_it_was_told_there() -> None:
    records = read_records(ROOT / "tests/zoo/records")
    assert len(records) > 10
    for case_record in records:
        menu = json.loads((case_record.run.parent / "menu.json").read_text())
        assert case_record.truth == menu["truth"]
        assert (
            record_from_menu({**menu, "kind": "anything", "planted": []}, case_record.run)
            == case_record
        )


# ── What must hold of every record ──────────────────────────────────────────────────────────────


def test_who_refuses_to_replay_has_not_passed_and_an_inexact_account_counts() -> None:
    good = RecordHealth(exact=True, imputed=0.004, unprofiled=-0.01, unsteady=0.1, refused=None)
    off_record = RecordHealth(
        exact=True, imputed=-0.03, unprofiled=None, unsteady=None, refused=None
    )
    refused = RecordHealth(exact=False, imputed=None, unprofiled=None, unsteady=None, refused="no")
    nothing = RecordHealth(exact=True, imputed=None, unprofiled=None, unsteady=None, refused=None)
    figures_of_health = health_figures([good, off_record, refused, nothing])
    assert figures_of_health["identity"] == {"count": 1, "of": 3, "share": 1 / 3}
    assert figures_of_health["inexact"] == 1
    assert figures_of_health["refused"] == {"no": 1}
    assert figures_of_health["anchored_median"] == 0.01
