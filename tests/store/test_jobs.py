"""Runs of one job in a folder that its machines share: found by where their ranks met, and when."""

from pathlib import Path

import pytest

from gapless import cli
from gapless.store.run.jobs import find_job_runs
from tests.store import drawing

SECOND = 10**9


def write_node(home: Path, number: int, *, at_s: int = 0, **job: object) -> Path:
    values = {"run": "7", "master": "a:1", "node": number, "nodes": 2, "restart": 0} | job
    head = drawing.process(7, rank=number, world=values.pop("world", 2), job=values)
    logs = {f"rank{number}.log": head + b"".join(drawing.training()[1:])}
    name = f"{at_s}-{number}-{values['run']}"
    started = 1_800_000_000_000_000_000 + at_s * SECOND
    return drawing.write_run(home / name, logs, started_unix_ns=started)


def names(paths: tuple[Path, ...]) -> set[str]:
    return {path.name for path in paths}


def test_runs_of_one_job_are_found_beside_each_other(tmp_path: Path) -> None:
    first = write_node(tmp_path, 0)
    write_node(tmp_path, 1, at_s=3)
    write_node(tmp_path, 1, run="8")  # another job at the same time
    write_node(tmp_path, 1, at_s=9_000)  # the same id, used again
    (tmp_path / "notes").mkdir()
    assert names(find_job_runs(first)) == {"0-0-7", "3-1-7"}


def test_without_an_id_the_address_is_what_is_common(tmp_path: Path) -> None:
    first = write_node(tmp_path, 0, run="none")
    write_node(tmp_path, 1, run=None)
    write_node(tmp_path, 1, at_s=1, run="none", master="b:1")
    assert names(find_job_runs(first)) == {"0-0-none", "0-1-None"}


@pytest.mark.parametrize("job", [{"world": 1}, {"run": None, "master": None}])
def test_a_run_that_is_no_part_of_a_larger_job_stays_alone(
    tmp_path: Path, job: dict[str, object]
) -> None:
    first = write_node(tmp_path, 0, at_s=0, **job)
    write_node(tmp_path, 1, at_s=1, **job)
    assert find_job_runs(first) == (first,)


def test_a_log_that_cannot_be_read_belongs_to_no_job(tmp_path: Path) -> None:
    first = write_node(tmp_path, 0)
    damaged = write_node(tmp_path, 1)
    (damaged / "logs" / "rank1.log").write_bytes(b"rubbish")
    assert find_job_runs(first) == (first,)


def test_the_report_on_a_shared_folder_is_that_of_the_whole_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "runs"
    first, second = write_node(home, 0), write_node(home, 1, at_s=3)
    for words in ([str(home)], [str(first), str(second)], ["last", "--in", str(home)]):
        assert cli.main(["report", *words, "--full"]) == 0
        assert "nodes" in capsys.readouterr().out
    assert cli.main(["report", first.name, "--in", str(home), "--full"]) == 0
    assert "node 1 of 2: nothing of rank 1 is here" in " ".join(capsys.readouterr().out.split())


def test_machines_of_a_job_are_compared_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    first, second = write_node(tmp_path, 0), write_node(tmp_path, 1, at_s=3)
    manifest = second / "run.json"
    manifest.write_text(manifest.read_text().replace('"host": "host"', '"host": "b7"'))
    for folders in ([first], [first, second]):
        assert cli.main(["report", *map(str, folders), "--by", "host"]) == 0
    alone, *lines = capsys.readouterr().out.splitlines()
    assert alone == "hosts: all that was recorded ran on one"
    assert [line.split(":")[0].split()[-1] for line in lines] == ["host", "b7"]
