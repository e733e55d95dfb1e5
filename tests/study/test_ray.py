"""Ranks read by workers of Ray: the same study, also where one of them is lost."""

import threading
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from benchmarks.many_ranks import kill_worker, write_job
from gapless.capture.ranks import ray_pool
from gapless.capture.ranks.tasks import Task
from gapless.errors import RemoteError, UsageError
from gapless.study import Options, open_study


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray itself
def test_workers_of_ray_find_the_same_though_one_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    write_job(tmp_path, 16, 3_000_000)
    by_processes = open_study([tmp_path], Options(cache=False))
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))
    killed = list[int]()
    threading.Thread(target=kill_worker, args=(0, killed), daemon=True).start()
    assert open_study([tmp_path], Options(on="local")) == by_processes
    assert killed


def test_a_worker_with_another_version_is_refused() -> None:
    class TaskError(Exception):
        cause: Exception | None = None

    with pytest.raises(ImportError, match=r"and this is 0\.0\.1") as refusal:
        ray_pool.answering_function("0.0.1")(b"")
    error = TaskError()
    error.cause = refusal.value
    ray = MagicMock(exceptions=MagicMock(RayTaskError=TaskError, RayError=TaskError))
    ray.get.side_effect = error
    with pytest.raises(RemoteError, match=r"this is 0\.0\.1; install the same version"):
        list(ray_pool.Cluster(ray).ask([Task("rank0.json")]))


def test_a_cluster_needs_its_caches() -> None:
    with pytest.raises(UsageError, match="--no-cache"):
        Options(on="local", cache=False)
