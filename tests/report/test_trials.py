"""A trial as text and as JSON."""

import io
import json

import msgspec
from inline_snapshot import snapshot
from msgspec.structs import replace

from gapless.model.edit import Applicability, Location, Proposal, SetArgument, Wrap
from gapless.model.estimate import Estimate
from gapless.model.trial import Arm, Parity, Side, Trial, TrialVerdict
from gapless.report.documents.trials import proposal_objects, trial_objects
from gapless.report.sections.trials import fix_names, ratio_text, trial_screen
from gapless.report.text.console import pen_for

WORKERS = SetArgument("torch.utils.data.DataLoader", "num_workers", 2, Location("train.py", 41))


def arm(side: str, order: int, step_ms: float, failed: str | None = None) -> Arm:
    return Arm(
        side=side,
        order=order,
        folder=None,
        code=0,
        steps=90,
        step_ns=round(step_ms * 1e6),
        first_batch_ns=200_000_000 if side == "A" else 1_100_000_000,
        start_ns=4_000_000_000,
        turn_ns=None,
        exit_ns=None,
        foreign=0.01,
        failed=failed,
    )


FASTER = Side(
    name="B",
    fixes=("more-workers", "one-thread"),
    summary="num_workers 0 → 2, one intra-op thread",
    edits=(WORKERS,),
    applicability=Applicability.EQUIVALENT,
    verdict=TrialVerdict.CONFIRMED,
    speedup=Estimate(1.38, 1.46, 1.55),
    job=Estimate(1.30, 1.37, 1.45),
    first_batch_ns=1_100_000_000,
    step_ns=20_548_000,
    parity=Parity.WITHIN_SPREAD,
    data="another order of the same samples",
)
USELESS = Side(
    name="C",
    fixes=("pin-memory",),
    summary="pin_memory False → True",
    edits=(),
    applicability=Applicability.IDENTICAL,
    verdict=TrialVerdict.REFUSED,
    speedup=None,
    job=None,
    why="each sample came 2.0 times",
)
TRIAL = Trial(
    id="t1",
    command=("python", "train.py"),
    run=None,
    arms=(arm("A", 0, 30.0), arm("B", 1, 20.5), arm("B", 2, 20.6), arm("A", 3, 90.0, "disturbed")),
    order="ABBA",
    sides=(FASTER, USELESS),
    noise=0.012,
    step_ns=30_000_000,
    measured=(12, 101),
    cache="warm",
    spent_s=61.4,
    notes=("interrupted: what was measured so far",),
)


def trial_text(trial: Trial, width: int = 110) -> str:
    stream = io.StringIO()
    pen = pen_for(stream, width)
    pen.write(trial_screen(trial, pen))
    return stream.getvalue()


def test_the_screen_of_a_trial() -> None:
    assert trial_text(TRIAL, 90) == snapshot("""\
gapless try · python train.py · more-workers + one-thread: confirmed 1.46× [1.38 … 1.55]
3 arms (ABBA) · steps 12 to 101 of each · 61.4 s in all · A/A noise ± 1.2 % · page cache
warm · 1 more did not count
                                  a step             is worth
  A  unedited                   30.00 ms
  B  more-workers + one-thread  20.55 ms  1.46× [1.38 … 1.55]  confirmed
  C  pin-memory                                                refused
  B   num_workers 0 → 2, one intra-op thread
      class: equivalent · losses within the spread of two unedited arms · data: another
      order of the same samples
      first batch 200 ms → 1.10 s
  C   pin_memory False → True
      each sample came 2.0 times
interrupted: what was measured so far
""")


def test_a_trial_that_proves_nothing_says_so_in_its_first_line() -> None:
    text = trial_text(replace(TRIAL, sides=(USELESS,), noise=None, measured=None))
    assert text.splitlines()[0].endswith("nothing tried is proven to help")
    assert "A/A noise not known" in text


def test_what_was_predicted_stands_beside_what_was_measured() -> None:
    predicted_side = replace(FASTER, predicted=Estimate(1.2, 1.5, 1.7))
    text = trial_text(replace(TRIAL, sides=(predicted_side, USELESS)), 120)
    head, unedited, faster, useless = text.splitlines()[2:6]
    assert head.split() == ["a", "step", "predicted", "is", "worth", "a", "whole", "job"]
    assert "1.50× [1.20 … 1.70]  1.46× [1.38 … 1.55]" in faster
    assert "×" not in unedited + useless
    assert "predicted" not in trial_text(TRIAL, 120)


def test_a_fix_stands_with_the_value_that_it_was_tried_with() -> None:
    edit = Wrap("torch.utils.data.DataLoader", "sample-cache", {"folder": "./kept"})
    side = replace(USELESS, fixes=("sample-cache",), edits=(edit,))
    assert fix_names(side) == "sample-cache=./kept"
    assert fix_names(replace(side, edits=(replace(edit, options={}),))) == "sample-cache"


def test_narrow_intervals_have_more_digits() -> None:
    assert ratio_text(Estimate(1.001, 1.005, 1.009)) == "1.005× [1.001 … 1.009]"
    assert ratio_text(Estimate(1.3, 1.4, 1.5)) == "1.40× [1.30 … 1.50]"


def test_bounds_that_say_nothing_are_not_printed() -> None:
    assert ratio_text(Estimate(0.0001, 4.46, 306138.0)) == "4.46× [< 0.01 … > 100]"
    assert ratio_text(Estimate(90.0, 100.0, 110.0)) == "100.00× [90.00 … 110.00]"
    assert "A/A noise > 100 %" in trial_text(replace(TRIAL, noise=12.0))


def test_a_ceiling_is_told_as_one_and_a_fix_that_is_proven_comes_before_it() -> None:
    ceiling = replace(
        FASTER, fixes=("cached-batch",), applicability=Applicability.ABLATION,
        speedup=Estimate(9.0, 10.0, 11.0),
    )  # fmt: skip
    alone = trial_text(replace(TRIAL, sides=(ceiling,)))
    assert "ceiling (cached-batch): at most 10.00× [9.00 … 11.00]" in alone.splitlines()[0]
    assert "an ablation: the most that could be gained, no fix" in alone
    assert "losses" not in alone
    both_screen = trial_text(replace(TRIAL, sides=(ceiling, FASTER)))
    assert "more-workers + one-thread: confirmed 1.46×" in both_screen.splitlines()[0]


def test_control_characters_of_a_command_do_not_reach_the_terminal() -> None:
    text = trial_text(replace(TRIAL, command=("python", "\x1b[31mred.py")))
    assert "\x1b" not in text
    assert "red.py" in text


def test_lines_keep_to_the_width() -> None:
    assert max(map(len, trial_text(TRIAL, 80).splitlines())) <= 80
    predicted = replace(FASTER, predicted=Estimate(1.6, 1.7, 1.8))
    text = trial_text(replace(TRIAL, sides=(predicted, USELESS)), 60)
    assert max(map(len, text.splitlines())) <= 60
    assert "more-workers + one-thread: predicted 1.70×" in text


def test_json_has_the_keys_that_scripts_rely_on() -> None:
    first_object, second_object = json.loads(msgspec.json.encode(trial_objects([TRIAL])))
    assert first_object["fixes"] == ["more-workers", "one-thread"]
    assert first_object["arms"] == "ABBA"
    assert first_object["speedup"] == {"low": 1.38, "mid": 1.46, "high": 1.55}
    assert first_object["predicted"] is None
    assert (first_object["verdict"], first_object["parity"], first_object["noise"]) == (
        "confirmed",
        "within-spread",
        0.012,
    )
    assert first_object["edits"][0]["kind"] == "set_argument"
    assert [run["side"] for run in first_object["runs"]] == ["A", "B", "B", "A"]
    assert [run["side"] for run in second_object["runs"]] == ["A", "A"]
    assert second_object["speedup"] is None
    assert second_object["why"] == "each sample came 2.0 times"


def test_a_refused_proposal_tells_its_reason() -> None:
    proposal = Proposal(
        "fused", "fused", (), Applicability.EQUIVALENT, refused="torch has none on CPU"
    )
    (document,) = json.loads(msgspec.json.encode(proposal_objects([proposal])))
    assert document["refused"] == "torch has none on CPU"
    assert document["where"] is None
