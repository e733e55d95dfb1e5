"""``gapless watch --serve``: metrics as a scraper gets them, and the dashboard that draws them."""

import json
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from gapless import cli
from gapless.live.metrics import serving
from gapless.live.metrics.exposition import CONTENT_TYPE, FAMILIES, Sample, exposition, samples
from gapless.live.view import LiveView
from gapless.live.watching import RunWatcher
from tests.live.growing import STEP_NS, GrowingRun

ROOT: Final = Path(__file__).parents[2]
MACHINE: Final = {
    "gpu0.sm": 93.0,
    "gpu0.memory_used": 8e9,
    "cpu.total": 250.0,
    "cpu.tree": 150.0,
    "disk.nvme0n1.busy": 4.0,
    "process.12.cpu": 3.0,
}


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> LiveView:
    """Return a moment of a run of one rank on a machine with a GPU."""
    growing = GrowingRun(tmp_path_factory.mktemp("runs") / "2026-run")
    growing.begin()
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    watcher.study_when_due()
    return replace(
        watcher.look(), machine=MACHINE, held={"gpu0": ("power",)}, gpu_names={"gpu0": 'a "B"'}
    )


def figures(view: LiveView) -> dict[str, float]:
    """Return the samples of a moment by name and the labels that they have, without the run's."""
    return {
        " ".join([sample.name, *(f"{k}={v}" for k, v in labels(sample))]): sample.value
        for sample in samples(view)
    }


def labels(sample: Sample) -> list[tuple[str, object]]:
    return [(k, v) for k, v in sample.labels.items() if k != "run" and v is not None]


def test_what_is_known_is_a_figure(view: LiveView) -> None:
    values = figures(view)
    assert values["gapless_step_seconds figure=median"] == pytest.approx(STEP_NS / 1e9)
    groups = [value for name, value in values.items() if "group_seconds" in name]
    leaves = [value for name, value in values.items() if "leaf_seconds" in name]
    assert sum(groups) == pytest.approx(STEP_NS / 1e9, rel=0.01)
    assert sum(leaves) == pytest.approx(sum(groups))
    assert all(groups)
    assert values["gapless_group_seconds group=data"] == pytest.approx(0.03, rel=0.02)
    assert values["gapless_steps_total rank=0"] == 60
    loader = {name: value for name, value in values.items() if "loader" in name}
    assert [round(value, 2) for value in loader.values()] == [1, 4, 1, 2]
    assert values['gapless_gpu_utilization_ratio gpu=0 model=a "B"'] == pytest.approx(0.93)
    assert values["gapless_gpu_clock_held gpu=0 reason=power"] == 1
    assert values["gapless_processors_busy by=run"] == pytest.approx(1.5)


def test_what_is_not_known_has_no_line(view: LiveView) -> None:
    assert view.run is not None
    run = replace(view.run, recent=None, recent_account=None, ranks=(), loaders=(), elapsed_ns=None)
    text = exposition(replace(view, run=run, machine={}, held={}, processors=None))
    names = set(re.findall(r"^gapless\w+", text, re.MULTILINE))
    assert names == {"gapless_build_info", "gapless_run_info", "gapless_record_age_seconds"}


def test_of_a_run_that_is_over_it_says_how_it_ended(view: LiveView) -> None:
    assert view.run is not None
    names = {sample.name for sample in samples(replace(view, run=replace(view.run, status="gone")))}
    assert names == {
        "gapless_build_info",
        "gapless_run_info",
        "gapless_run_elapsed_seconds",
        "gapless_record_age_seconds",
    }


def test_a_parser_of_openmetrics_reads_all_of_it(view: LiveView) -> None:
    parser: Any = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = list(parser.text_string_to_metric_families(exposition(view)))
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
    written = {
        (
            sample.name,
            tuple(sorted((k, str(v)) for k, v in sample.labels.items() if v is not None)),
        ): pytest.approx(sample.value)
        for sample in samples(view)
    }
    assert read == written
    assert {family.type for family in families} == {"info", "counter", "gauge"}


def test_the_dashboard_asks_for_what_there_is() -> None:
    dashboard = (ROOT / "deploy/grafana/gapless.json").read_text(encoding="utf-8")
    assert len(json.loads(dashboard)["panels"]) > 10
    names = set(re.findall(r"gapless_\w+", dashboard))
    assert names <= set(FAMILIES)
    assert len(names) > 15


def get(address: str, path: str) -> tuple[int, str | None, str]:
    """Return status, type and text."""
    connection = HTTPConnection(address, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read().decode()


def test_a_scrape_gets_the_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine is served before a run and behind it; a scrape stands where it would sleep."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gapless.live.pauses.Pause.is_due", Mock(return_value=True))
    growing = GrowingRun(tmp_path / ".gapless/runs/2026-run")
    said: list[str] = []
    answers: list[tuple[int, str | None, str]] = []

    def scrape(_: float) -> None:
        said.append(capsys.readouterr().err)
        address = said[0].partition("http://")[2].partition("/")[0]
        answers.append(get(address, "/metrics"))
        if len(answers) == 1:
            assert get(address, "/etc/passwd")[0] == 404
            growing.begin()
            growing.grow(20)
        if len(answers) == 3:
            growing.end()
        if len(answers) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(serving, "time", Mock(sleep=scrape))
    assert cli.main(["watch", "--serve", "0"]) == 130
    assert "metrics at http://127.0.0.1:" in said[0]
    assert {answer[:2] for answer in answers} == {(200, CONTENT_TYPE)}
    texts = [text for _, _, text in answers]
    assert "gapless_run_info" not in texts[0]
    assert all('status="running"' in text for text in texts[1:3])
    assert "gapless_step_seconds" not in texts[3]
    assert "gapless_run_info" not in texts[4]
    assert "gapless_processors{} " in texts[4]
    assert 'gapless_steps_total{run="2026-run",rank="0"} 20' in texts[1]
    assert all(text.endswith("# EOF\n") for text in texts)


def test_the_example_reads_them() -> None:
    command = [sys.executable, str(ROOT / "examples/read_metrics.py")]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert completed.stdout.startswith("gapless_processors{} ")


@pytest.mark.parametrize("address", ["", "x", "70000", "::1:80", "host:"])
def test_what_is_no_address(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", "--serve", address]) == 2
    assert "is no [HOST:]PORT" in capsys.readouterr().err


def test_what_cannot_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", "--serve", "9464", "--once"]) == 2
    assert "leave out --once" in capsys.readouterr().err
    assert cli.main(["watch", "--machine", "--serve", "192.0.2.1:9464"]) == 2
    assert "192.0.2.1:9464 cannot be listened at" in capsys.readouterr().err
