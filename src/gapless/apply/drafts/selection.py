"""Which fixes are to be written: the proven ones of a run, or those that are named."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.catalogue.declare.hypothetical import assume_edits
from gapless.catalogue.declare.listing import propose_named
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument, SetEnv, Skip, Wrap
from gapless.model.estimate import Estimate
from gapless.model.facts import Facts
from gapless.model.trial import FASTER, Side, Trial
from gapless.model.tuning import ProvenFix
from gapless.store.run import trials, tunings

_NEVER: Final = (Applicability.ABLATION, Applicability.MANUAL)
ONE_BY_ONE: Final = "each was measured by itself; gapless tune measures them on top of one another"


class FixSelection(Struct, frozen=True):
    """The fixes to write, and how far they are proven."""

    fixes: tuple[ProvenFix, ...]
    predicted: Mapping[str, Estimate | None] = field(default_factory=dict[str, Estimate | None])
    is_stacked: bool = False  # each was proven on top of those before it
    notes: tuple[str, ...] = ()  # on how the gains were measured, and what was left out

    def is_proven(self, fix: ProvenFix) -> bool:
        """Return whether a trial has proven a fix; else ``predicted`` has its gain, if any."""
        return fix.fix not in self.predicted


def proven_fixes(run: Path) -> FixSelection:
    """Return the proven fixes of a run: of its ``tuned.json``, else of its trials.

    Of trials, the best by the lower bound of its gain comes first; what sets the same once more is
    left out. Raises ``UsageError`` for a ``tuned.json`` that cannot be read.
    """
    if (run / tunings.FILE).exists():
        return FixSelection(tunings.read_tuning(run / tunings.FILE).fixes, is_stacked=True)
    sides = [side for trial in trials.run_trials(run) for side in proven_sides(trial)]
    sides.sort(key=lambda side: -side.speedup.low if side.speedup is not None else 0.0)
    fixes = _drop_conflicts(map(_fix_of_side, sides), ())
    return FixSelection(fixes, notes=(ONE_BY_ONE,) if len(fixes) > 1 else ())


def proven_sides(trial: Trial) -> tuple[Side, ...]:
    """Return the sides of a trial that are fixes, and proven to help."""
    return tuple(side for side in trial.sides if _is_proven(side))


def _is_proven(side: Side) -> bool:
    is_fix = side.applicability not in _NEVER
    return is_fix and side.verdict in FASTER and side.speedup is not None


def _fix_of_side(side: Side) -> ProvenFix:
    name = "+".join(side.fixes)
    return ProvenFix(name, side.summary, side.edits, side.applicability, side.speedup)


def add_proposals(selection: FixSelection, proposals: Sequence[Proposal]) -> FixSelection:
    """Add what is proposed for a run and was not proven, as far as it can be done."""
    fixes = [
        ProvenFix(
            proposal.fix,
            proposal.summary,
            proposal.edits,
            proposal.applicability,
            None,
            proposal.risk,
            proposal.location,
        )
        for proposal in proposals
        if proposal.refused is None and proposal.edits and proposal.applicability not in _NEVER
    ]
    names = {fix.fix for fix in selection.fixes}
    added = _drop_conflicts([fix for fix in fixes if fix.fix not in names], selection.fixes)
    gains = {proposal.fix: proposal.speedup for proposal in proposals}
    predicted = {**selection.predicted, **{fix.fix: gains.get(fix.fix) for fix in added}}
    return replace(selection, fixes=(*selection.fixes, *added), predicted=predicted)


def choose_named(selection: FixSelection, names: Sequence[str]) -> FixSelection:
    """Return the fixes of these names, in their order; without names, all.

    Raises ``UsageError`` for a name that is not among them.
    """
    if not names:
        return selection
    fixes: dict[str, ProvenFix] = {}
    for name in names:
        matches = [fix for fix in selection.fixes if _has_name(fix, name)]
        if not matches:
            fix_names = ", ".join(fix.fix for fix in selection.fixes) or "none"
            raise UsageError(
                f"{name} is not among the fixes to write (there are: {fix_names}); "
                "gapless try proves it, --unproven writes it all the same"
            )
        fixes |= {repr(fix): fix for fix in matches}
    is_one = len(fixes) == 1
    return replace(selection, fixes=tuple(fixes.values()), notes=() if is_one else selection.notes)


def drop_superseded(selection: FixSelection, facts: Facts) -> FixSelection:
    """Leave out fixes that those before them make needless or impossible; a note says which.

    "foreach" on an optimizer that is fused by then is one. What was proven on top of the others
    stays.
    """
    fixes: list[ProvenFix] = []
    for fix in selection.fixes:
        assumed = assume_edits(facts, [edit for earlier in fixes for edit in earlier.edits])
        is_measured = selection.is_stacked and selection.is_proven(fix)
        if is_measured or not fixes or _still_applies(fix, assumed):
            fixes.append(fix)
    names = [fix.fix for fix in selection.fixes if fix not in fixes]
    notes = [f"left out: {', '.join(names)}, which the fixes before make needless"] if names else []
    return replace(selection, fixes=tuple(fixes), notes=(*selection.notes, *notes))


def _still_applies(fix: ProvenFix, facts: Facts) -> bool:
    try:
        proposals = propose_named(fix.fix, facts)
    except UsageError:  # several together, or a setting without a name
        return True
    return any(proposal.edits and proposal.refused is None for proposal in proposals)


def _has_name(fix: ProvenFix, name: str) -> bool:
    bare_name = name.partition("=")[0].partition("@")[0]
    return name == fix.fix or bare_name in fix.fix.split("+")


def _drop_conflicts(
    fixes: Iterable[ProvenFix], earlier: Sequence[ProvenFix]
) -> tuple[ProvenFix, ...]:
    """Return the fixes that set nothing which one before them sets."""
    taken_keys = {key for fix in earlier for key in _targets(fix)}
    kept_fixes: list[ProvenFix] = []
    for fix in fixes:
        keys = set(_targets(fix))
        if not keys & taken_keys:
            kept_fixes.append(fix)
            taken_keys |= keys
    return tuple(kept_fixes)


def _targets(fix: ProvenFix) -> Iterator[object]:
    return (edit_target(edit) for edit in fix.edits)


def edit_target(edit: Edit) -> object:
    """Return what an edit sets, so that two which set the same are equal in it."""
    match edit:
        case SetArgument():
            return "argument", edit.target, edit.name, edit.where
        case SetEnv():
            return "variable", edit.name
        case Wrap():
            return "wrap", edit.target, edit.part, edit.where
        case Skip():
            return "skip", edit.target, edit.where
        case _:
            return "global", edit.target
