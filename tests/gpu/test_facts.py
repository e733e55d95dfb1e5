"""The facts of a recorded training on a GPU, and what the fixes say of it."""

from pathlib import Path

import pytest

from gapless.catalogue import listing
from gapless.catalogue.declare import spoken
from tests.study.test_facts import recorded

TRAINING = """
from torch import nn

class Images(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, index):
        return torch.randn(3, 16, 16), index % 4

def main():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 14 * 14, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for batch, labels in DataLoader(Images(), batch_size=4, num_workers=2):
        loss = nn.functional.cross_entropy(model(batch.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

main()
"""


@pytest.mark.gpu
def test_the_device_is_told_and_the_fixes_speak_of_it(tmp_path: Path) -> None:
    found = recorded(tmp_path, TRAINING)
    machine = found.machine
    assert machine.device
    assert machine.capability is not None
    assert machine.capability >= (7, 0)
    assert machine.devices
    assert [one.device for one in found.optimizers] == ["cuda:0"]
    assert found.calls["empty_cache"] > 0
    assert found.calls["synchronize"] > 0
    said = {one.fix: spoken(one) for fix in listing.FIXES for one in fix(found)}
    assert said["pin-memory"].startswith("same: ")
    assert said["fused"].startswith("equivalent: AdamW")
    assert said["foreach"].endswith("uses foreach on CUDA by itself")
    assert said["no-empty-cache"].startswith("same: ")
    assert said["no-synchronize"].startswith("risky: ")
    assert said["channels-last"].startswith("equivalent: ")
    assert said["compile-reduce-overhead"].startswith("risky: ")
    if machine.capability >= (8, 0):
        assert said["tf32"].startswith("risky: ")
        assert said["bf16"].startswith("risky: ")
