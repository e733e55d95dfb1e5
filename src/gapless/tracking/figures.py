"""A study as named figures: its step, its account a step, what its findings would give."""

from collections.abc import Iterator

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.finding import Diagnosis
from gapless.model.run import RecordedRun
from gapless.model.study import Study


class Figure(Struct, frozen=True):
    """A number, under a name that all trackers take; ``text`` says what it is about."""

    name: str  # "gapless/…"; no name is a folder of another: files of MLflow are
    value: float
    text: str | None = None


class TrackedStudy(Struct, frozen=True):
    """What is logged of a run."""

    run_id: str
    path: str
    step: int  # how many the run has made; 0: not known
    verdict: str | None
    figures: tuple[Figure, ...]


def track_study(study: Study) -> TrackedStudy:
    """Return what is logged of a study. Times are milliseconds, shares fractions."""
    recorded, diagnosis = study.recorded, study.diagnosis
    steps = None if recorded is None else recorded.steps
    verdict = None if diagnosis is None or diagnosis.verdict is None else diagnosis.verdict.sentence
    return TrackedStudy(
        run_id="" if recorded is None else recorded.life.id,
        path="" if recorded is None else recorded.life.path,
        step=0 if steps is None else steps.count,
        verdict=verdict,
        figures=tuple(_figures(study)),
    )


def _figures(study: Study) -> Iterator[Figure]:
    account = study.account
    if study.recorded is not None:
        yield from _step_figures(study.recorded)
        account = account if study.recorded.account is None else study.recorded.account.account
    yield from _account_figures(account)
    if study.diagnosis is not None:
        yield from _finding_figures(study.diagnosis)


def _step_figures(recorded: RecordedRun) -> Iterator[Figure]:
    steps = recorded.steps
    if steps is None:
        return
    lengths_ns = {"": steps.median_ns, "_mean": steps.mean_ns, "_p90": steps.p90_ns}
    for suffix, length_ns in lengths_ns.items():
        yield Figure(f"gapless/step{suffix}_ms", length_ns / 1e6)
    if steps.samples_per_s is not None:
        yield Figure("gapless/samples_per_s", steps.samples_per_s)


def _account_figures(account: Account) -> Iterator[Figure]:
    for group, leaf, ns in account.walk_step():
        if leaf is not None:
            yield Figure(f"gapless/leaf_ms/{group}/{leaf}", ns / 1e6)
            continue
        yield Figure(f"gapless/group_ms/{group}", ns / 1e6)
        yield Figure(f"gapless/group_share/{group}", account.groups[group] / account.wall_ns)


def _finding_figures(diagnosis: Diagnosis) -> Iterator[Figure]:
    yield Figure("gapless/findings", len(diagnosis.findings))
    gains: dict[str, Figure] = {}
    for finding in diagnosis.findings:  # the most valuable first: of a cause found twice, that one
        detection, prediction = finding.detection, finding.prediction
        name = f"gapless/finding/{detection.name}"
        text = f"{detection.code} {detection.name}: {detection.summary}"
        if prediction.speedup is not None:
            gains.setdefault(name, Figure(f"{name}_gain", prediction.speedup.mid, text))
        elif finding.share is not None:
            gains.setdefault(name, Figure(f"{name}_share", finding.share, text))
    yield from gains.values()
