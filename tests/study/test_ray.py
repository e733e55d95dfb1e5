"""Ranks read by workers of Ray: the same study, also where one of them is lost."""

import threading
from pathlib import Path

import pytest

from benchmarks.many_ranks import kill_worker, write_job
from gapless.errors import UsageError
from gapless.study import Options, open_study


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray itself
def test_workers_of_ray_find_the_same_though_one_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    write_job(tmp_path, 16)
    by_processes = open_study([tmp_path], Options(cache=False))
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    killed = list[int]()
    threading.Thread(target=kill_worker, args=(0, killed), daemon=True).start()
    assert open_study([tmp_path], Options(on="local")) == by_processes
    assert killed


def test_a_cluster_needs_its_caches() -> None:
    with pytest.raises(UsageError, match="--no-cache"):
        Options(on="local", cache=False)
