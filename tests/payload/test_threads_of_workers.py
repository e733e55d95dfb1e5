"""Each worker tells once how many threads torch's operators use in it."""

from pathlib import Path

import pytest

from gapless import wire
from tests.payload.loading import run_script

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
    recorded = run_script(tmp_path, SCRIPT)
    thread_facts = [fact for fact in recorded.texts(wire.FACT) if fact["noun"] == "threads"]
    assert [fact["values"] for fact in thread_facts] == [{"intra_op_threads": 3}] * 2
