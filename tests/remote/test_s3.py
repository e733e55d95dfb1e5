"""A bucket of a server of this machine: ranks fetched by processes of their own."""

from pathlib import Path
from typing import Any

import pytest

from gapless.errors import NotFoundError
from gapless.study import Options, open_study

_DATA = Path(__file__).parents[1] / "data"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of botocore itself
def test_ranks_in_a_bucket_are_the_study_that_they_are_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: Any = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    storage: Any = pytest.importorskip("s3fs")
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        bucket = storage.S3FileSystem()
        bucket.mkdir("job")
        paths = [_DATA / f"two_ranks.rank{rank}.json.gz" for rank in (0, 1)]
        for path in paths:
            bucket.put_file(str(path), f"job/log/{path.name}")
        remote = open_study(["s3://job/log"], Options(cache=False, diagnose=False))
        assert remote.run.paths == tuple(f"s3://job/log/{path.name}" for path in paths)
        with pytest.raises(NotFoundError, match="s3://none/x"):
            open_study(["s3://none/x"])
    finally:
        server.stop()
    local = open_study(paths, Options(cache=False, diagnose=False))
    assert (remote.account, remote.stragglers) == (local.account, local.stragglers)
