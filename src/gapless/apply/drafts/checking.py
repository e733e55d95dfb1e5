"""Whether a patched program trains as the run does with the edits applied to it from outside."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.apply.drafts.draft import PatchDraft
from gapless.errors import GaplessError, UsageError
from gapless.launch.trial import offline, sandbox
from gapless.model.edit import Applicability, Edit, Wrap
from gapless.model.facts import Facts
from gapless.model.recording import Recording
from gapless.model.trial import Parity
from gapless.model.tuning import ProvenFix
from gapless.recorded.facts import facts
from gapless.verify.arms import arm
from gapless.verify.arms.parity import Likeness, compare_training, epsilon, find_observation
from gapless.verify.specs import ArmSpec

_STEPS: Final = 40
_SECONDS: Final = 20.0  # of stepping
_LOADER: Final = (
    "dataset", "batch_size", "shuffle", "num_workers", "prefetch_factor", "pin_memory",
    "persistent_workers", "in_order", "start_method",
)  # fmt: skip
_OPTIMIZER: Final = ("name", "foreach", "fused", "tensors", "parameters", "device")
_MODEL: Final = (
    "name", "parameters", "dtype", "device", "channels_last", "compiled", "checkpoints",
)  # fmt: skip
_PARTS: Final = "_gapless.parts."  # what edits bring along; a patch has it in a file of its own
_MACHINE: Final = ("intra_op_threads", "environment")

Progress = Callable[[str], None]


class PatchCheck(Struct, frozen=True):
    """What a patched program did otherwise than the run with the edits applied."""

    steps: int  # of each, at most
    differences: tuple[str, ...]  # none: it is the same training
    notes: tuple[str, ...]


def find_view_folder(draft: PatchDraft) -> Path:
    """Return the folder of which a view can hold the patched files and the working folder.

    Raises ``UsageError`` where no such view is to be had.
    """
    paths = [draft.subject.folder.resolve(), *_patched_files(draft)]
    parents = [paths[0], *(path.parent for path in paths[1:])]
    folder = Path(os.path.commonpath(parents))
    why = sandbox.explain_unavailable(folder)
    if why is not None:
        raise UsageError(
            f"a patch is checked in a private view of {folder}, which is not to be had: {why}"
        )
    return folder


def check_patch(draft: PatchDraft, view_folder: Path, report_progress: Progress) -> PatchCheck:
    """Run the program briefly with the edits applied, then patched, and compare.

    Raises ``GaplessError`` where the former does not train.
    """
    fixes = [fix for fix in draft.selection.fixes if fix.fix in draft.patch.written]
    with tempfile.TemporaryDirectory(prefix="gapless-check-") as name, chdir(draft.subject.folder):
        out = Path(name)
        log_folder = out / "offline"
        offline.make(log_folder)
        plan = arm.ArmPlan(
            draft.subject.command,
            out,
            private_folder=view_folder,
            variables=offline.variables(os.environ, log_folder),
        )
        log_edits = tuple(edit for edit in offline.edits({}, log_folder) if isinstance(edit, Wrap))
        report_progress("running it with the edits applied")
        edited = [_run_edited(plan, (*_edits(fixes), *log_edits))]
        report_progress("running it patched")
        patched_plan = replace(plan, files=_patched_files(draft))
        patched = _run_patched(patched_plan, log_edits)
        if isinstance(patched, str):
            return PatchCheck(_STEPS, (f"the patched program failed: {patched}",), ())
        if _compare(edited, patched).parity is Parity.NOT_OBSERVED:
            report_progress("running it with the edits applied once more: how far losses vary")
            edited.append(_run_edited(plan, (*_edits(fixes), *log_edits)))
        return _judge(fixes, edited, patched)


def _edits(fixes: Sequence[ProvenFix]) -> tuple[Edit, ...]:
    return tuple({repr(edit): edit for fix in fixes for edit in fix.edits}.values())


def _patched_files(draft: PatchDraft) -> Mapping[Path, bytes]:
    return {file.path.resolve(): file.after for file in draft.patch.files}


def _run_edited(plan: arm.ArmPlan, edits: tuple[Edit, ...]) -> Recording:
    outcome, recording = arm.run(plan, ArmSpec("B", 0, edits, _STEPS, _SECONDS))
    if outcome.failed is not None or recording is None:
        why = outcome.failed or arm.NO_STEPS
        raise GaplessError(f"with the edits applied the program does not train here: {why}")
    return recording


def _run_patched(plan: arm.ArmPlan, log_edits: tuple[Edit, ...]) -> Recording | str:
    outcome, recording = arm.run(plan, ArmSpec("P", 1, log_edits, _STEPS, _SECONDS))
    if outcome.failed is not None or recording is None:
        return outcome.failed or arm.NO_STEPS
    return recording


def _judge(
    fixes: Sequence[ProvenFix], edited: Sequence[Recording], patched: Recording
) -> PatchCheck:
    differences = list(compare_facts(facts(edited[0]), facts(patched)))
    likeness = _compare(edited, patched)
    if likeness.refused is not None:
        differences.append(f"samples: {likeness.refused}")
    notes = [_describe_losses(likeness)]
    must_agree = all(fix.applicability is Applicability.IDENTICAL for fix in fixes)
    unlike = [
        *([likeness.note or "losses differ"] if likeness.parity is Parity.DIFFERENT else []),
        *([f"samples: {likeness.data}"] if likeness.data not in {None, "same"} else []),
    ]
    if must_agree and unlike:
        return PatchCheck(_STEPS, (*differences, *unlike), ())
    return PatchCheck(_STEPS, tuple(differences), tuple(dict.fromkeys((*notes, *unlike))))


def _describe_losses(likeness: Likeness) -> str:
    if likeness.note is None:
        return "losses were not observed"
    if likeness.parity is Parity.WITHIN_SPREAD:
        return f"{likeness.note}: as runs with the edits applied differ by themselves"
    return likeness.note


def _compare(edited: Sequence[Recording], patched: Recording) -> Likeness:
    observed = [find_observation(recording) for recording in edited]
    seen = find_observation(patched)
    return compare_training(
        [observation for observation in observed if observation is not None],
        [] if seen is None else [seen],
        max(map(epsilon, (*edited, patched))),
    )


def compare_facts(edited: Facts, patched: Facts) -> Iterator[str]:
    """Yield which settings of two runs differ: each with its value in the patched one, and not."""
    ours, theirs = dict(_settings(edited)), dict(_settings(patched))
    for name in {**ours, **theirs}:
        wanted, value = ours.get(name), theirs.get(name)
        if not _is_same(wanted, value):
            yield f"{name} is {value} in the patched program, and {wanted} with the edits applied"


def _is_same(wanted: object, value: object) -> bool:
    """Return whether settings are the same; a class of a part is, in whatever file it stands."""
    if isinstance(wanted, str) and wanted.startswith(_PARTS):
        return isinstance(value, str) and value.rpartition(".")[2] == wanted.rpartition(".")[2]
    return wanted == value


def _settings(run: Facts) -> Iterator[tuple[str, object]]:
    for noun, group, names in (
        ("loader", run.loaders, _LOADER),
        ("optimizer", run.optimizers, _OPTIMIZER),
        ("model", run.models, _MODEL),
        ("machine", (run.machine,), _MACHINE),
    ):
        for number, item in enumerate(group, start=1):
            title = noun if len(group) == 1 else f"{noun} {number}"
            yield from ((f"{title}: {name}", getattr(item, name)) for name in names)
    for parallel in run.parallel:
        yield from (
            (f"{parallel.kind}: {name}", value) for name, value in parallel.settings.items()
        )
    if run.precision is not None:
        yield from ((f"precision: {name}", value) for name, value in run.precision.settings.items())
    yield "backward passes of a step", run.world.micro_batches
