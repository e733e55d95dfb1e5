"""A study in the cell of a notebook: its figures, its findings, no name that is markup."""

import re
from pathlib import Path

from msgspec.structs import replace

import gapless
from gapless.model.account import Account
from gapless.model.change import Prediction
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.finding import Detection, Diagnosis, Finding
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import EMPTY_TABLES
from gapless.store.run.unpack import unpack
from tests.model.test_frames import account
from tests.traces import RECORDED_RUN


def study(full_account: Account, diagnosis: Diagnosis | None = None) -> Study:
    health = StudyHealth("kineto", 1, 0, 0, False, 1, None, 0, (), ())  # noqa: FBT003
    run = RunInfo((), (), None, None, ())
    tables = EMPTY_TABLES
    return Study(run, health, None, full_account, tables, diagnosis=diagnosis)


def cells(shown: Study | Diagnosis) -> list[str]:
    """Return the texts of the cells that a notebook shows."""
    html = shown._repr_html_()  # pyright: ignore[reportPrivateUsage]
    return re.findall(r"<t[dh][^>]*>([^<]*)<", html)


def test_the_account_is_shown_with_its_sum() -> None:
    texts = cells(study(account()))
    assert texts[:4] == ["", "ms a step", "share", ""]
    assert "compute 0.001 70.0%" in " ".join(texts)
    assert "sum 0.001 100.0%" in " ".join(texts)


def test_a_capture_without_steps_and_an_empty_one_are_shown() -> None:
    assert "ms a step" not in cells(study(account(steps=None)))
    assert cells(study(Account(0, None, {}, {}, {}, ())))[-4:-1] == ["sum", "0.000", "0.0%"]


def found(name: str, speedup: Estimate | None) -> Finding:
    detection = Detection(
        "G101", name, "It waits <b>here</b>.", (), location=Location("/a/train.py", 41)
    )
    return Finding(detection, Prediction(speedup, "feed"), None)


def test_findings_are_shown_with_their_line_and_gain_and_escaped() -> None:
    findings = (found("slow-<i>", Estimate(1.2, 1.5, 1.8)), found("odd", None))
    shown = study(account(), Diagnosis(findings))
    assert cells(shown)[-8:] == [
        "G101 slow-&lt;i&gt;",
        "train.py:41",
        "1.50× [1.20 … 1.80]",
        "It waits &lt;b&gt;here&lt;/b&gt;.",
        "G101 odd",
        "train.py:41",
        "not predicted",
        "It waits &lt;b&gt;here&lt;/b&gt;.",
    ]
    assert shown.diagnosis is not None
    assert cells(shown.diagnosis) == cells(shown)[-12:]


def test_of_many_findings_the_first_are_shown_and_without_any_the_outlook() -> None:
    findings = tuple(found(f"cause-{number}", None) for number in range(7))
    html = Diagnosis(findings)._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "cause-4" in html
    assert "cause-5" not in html
    assert "2 more: study.diagnosis.findings" in html
    outlook = Diagnosis(outlook="nothing to gain: a < b")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert outlook == "<p>nothing to gain: a &lt; b</p>"


def test_of_a_run_the_account_of_its_steps_is_shown_and_loads_nothing(tmp_path: Path) -> None:
    run_study = gapless.open(unpack(RECORDED_RUN, tmp_path), cache=False)
    assert run_study.recorded is not None
    assert run_study.recorded.account is not None
    step_account = run_study.recorded.account.account
    assert step_account.steps is not None
    mean_ms = step_account.wall_ns / step_account.steps / 1e6
    assert f"{mean_ms:.3f}" in cells(run_study)
    html = run_study._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert not re.search(r"<(script|link|img|style)|https?:", html)
    assert len(html) < 20_000
    without = replace(run_study, diagnosis=None)
    assert "G1" not in " ".join(cells(without))
