"""Each worker tells once how many threads torch's operators use in it."""

from pathlib import Path

import pytest

from gapless import wire
from tests.payload.loading import run

pytest.importorskip("torch")

SCRIPT = """
def init(_worker):
    torch.set_num_threads(3)

for _ in DataLoader(Numbers(), batch_size=2, num_workers=2, worker_init_fn=init):
    pass
for _ in DataLoader(Numbers(), batch_size=2):
    pass
"""


def test_workers_tell_their_threads_once(tmp_path: Path) -> None:
    ran = run(tmp_path, SCRIPT)
    told = [one for one in ran.texts(wire.FACT) if one["noun"] == "threads"]
    assert [one["values"] for one in told] == [{"intra_op_threads": 3}] * 2
