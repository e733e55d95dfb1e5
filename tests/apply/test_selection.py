"""Which fixes are written: of ``tuned.json``, of trials, by name, and what is only proposed."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.apply.drafts.selection import (
    add_proposals,
    choose_named,
    drop_superseded,
    proven_fixes,
)
from gapless.catalogue.examples import example_facts
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument, SetGlobal
from gapless.model.estimate import Estimate
from gapless.model.trial import Side, Trial, TrialVerdict
from gapless.model.tuning import ProvenFix, Tuning
from gapless.store.run import trials, tunings

LOADER = "torch.utils.data.DataLoader"
WORKERS = SetArgument(LOADER, "num_workers", 4)
PINNED = SetArgument(LOADER, "pin_memory", value=True)
THREADS = SetGlobal("torch.set_num_threads", 1)


def side(
    fixes: str,
    edits: tuple[Edit, ...],
    low: float,
    verdict: TrialVerdict = TrialVerdict.CONFIRMED,
    applicability: Applicability = Applicability.IDENTICAL,
) -> Side:
    speedup = Estimate(low, low + 0.1, low + 0.2)
    names = tuple(fixes.split("+"))
    return Side("B", names, fixes, edits, applicability, verdict, speedup, None)


def write_trial(run: Path, *sides: Side, number: int = 1) -> None:
    trial = Trial(
        f"{number:02d}", ("python",), run.name, (), "AB", sides, 0.01, 10, None, "warm", 1
    )
    trials.write(trial, run)


def names_of(run: Path) -> list[str]:
    return [fix.fix for fix in proven_fixes(run).fixes]


def test_what_trials_have_proven_comes_best_first(tmp_path: Path) -> None:
    write_trial(
        tmp_path, side("pin-memory", (PINNED,), 1.05), side("more-workers", (WORKERS,), 2.0)
    )
    write_trial(tmp_path, side("one-thread", (THREADS,), 1.2), number=2)
    selection = proven_fixes(tmp_path)
    assert [fix.fix for fix in selection.fixes] == ["more-workers", "one-thread", "pin-memory"]
    assert selection.fixes[0].speedup == Estimate(2.0, 2.1, 2.2)
    assert selection.notes  # they were measured one by one


def test_what_is_not_proven_or_no_fix_is_left_out(tmp_path: Path) -> None:
    write_trial(
        tmp_path,
        side("a", (WORKERS,), 1.2, TrialVerdict.UNDECIDED),
        side("b", (PINNED,), 0.5, TrialVerdict.WORSE),
        side("c", (THREADS,), 3.0, applicability=Applicability.ABLATION),
    )
    assert names_of(tmp_path) == []


def test_of_fixes_that_set_the_same_the_best_is_written(tmp_path: Path) -> None:
    eight = replace_value(WORKERS, 8)
    write_trial(tmp_path, side("more-workers", (WORKERS,), 2.0))
    write_trial(tmp_path, side("more-workers+pin-memory", (eight, PINNED), 2.5), number=2)
    write_trial(tmp_path, side("pin-memory", (PINNED,), 1.1), number=3)
    assert names_of(tmp_path) == ["more-workers+pin-memory"]


def replace_value(edit: SetArgument, value: int) -> SetArgument:
    return SetArgument(edit.target, edit.name, value)


def test_what_was_tuned_goes_before_what_was_tried(tmp_path: Path) -> None:
    write_trial(tmp_path, side("pin-memory", (PINNED,), 1.5))
    fix = ProvenFix("more-workers", "num_workers 0 → 4", (WORKERS,), Applicability.IDENTICAL)
    tunings.write_tuning(Tuning(("python",), "/x", None, (fix,)), tmp_path / tunings.FILE)
    assert names_of(tmp_path) == ["more-workers"]
    (tmp_path / tunings.FILE).write_bytes((tmp_path / tunings.FILE).read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"tuned\.json"):
        names_of(tmp_path)


def test_names_select(tmp_path: Path) -> None:
    write_trial(tmp_path, side("a+b", (WORKERS,), 2.0), side("c", (THREADS,), 1.2))
    selection = proven_fixes(tmp_path)
    assert [fix.fix for fix in choose_named(selection, ["c"]).fixes] == ["c"]
    assert [fix.fix for fix in choose_named(selection, ["b=4", "a"]).fixes] == ["a+b"]
    with pytest.raises(UsageError, match=r"d is not among .* a\+b, c"):
        choose_named(selection, ["d"])


def test_proposals_are_added_and_said_to_be_unproven(tmp_path: Path) -> None:
    write_trial(tmp_path, side("more-workers", (WORKERS,), 2.0))
    expected = Estimate(1.1, 1.2, 1.3)
    proposal = Proposal("pin-memory", "", (PINNED,), Applicability.IDENTICAL, speedup=expected)
    proposals = [
        proposal,
        replace(proposal, fix="workers-again", edits=(replace_value(WORKERS, 8),)),
        replace(proposal, fix="refused", edits=(THREADS,), refused="because"),
        replace(proposal, fix="manual", edits=(THREADS,), applicability=Applicability.MANUAL),
        replace(proposal, fix="empty", edits=()),
    ]
    selection = add_proposals(proven_fixes(tmp_path), proposals)
    assert [fix.fix for fix in selection.fixes] == ["more-workers", "pin-memory"]
    assert [selection.is_proven(fix) for fix in selection.fixes] == [True, False]
    assert selection.predicted == {"pin-memory": expected}


def test_what_fixes_before_make_needless_is_left_out(tmp_path: Path) -> None:
    facts = example_facts.cpu()
    place = facts.optimizers[0].location
    edits = [
        SetArgument("torch.optim.AdamW", name, value=True, where=place)
        for name in ("fused", "foreach")
    ]
    write_trial(tmp_path, side("fused", (edits[0],), 1.3), side("foreach", (edits[1],), 1.1))
    selection = drop_superseded(proven_fixes(tmp_path), facts)
    assert [fix.fix for fix in selection.fixes] == ["fused"]
    assert "left out: foreach" in selection.notes[-1]
    alone = choose_named(proven_fixes(tmp_path), ["foreach"])
    assert drop_superseded(alone, facts).fixes == alone.fixes
