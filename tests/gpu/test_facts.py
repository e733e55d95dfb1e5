"""The facts of a recorded training on a GPU, and what the fixes say of it."""

from pathlib import Path

import pytest

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.fix import describe_proposal
from tests.study.test_facts import record_facts

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
    facts = record_facts(tmp_path, TRAINING)
    machine = facts.machine
    assert machine.device
    assert machine.capability is not None
    assert machine.capability >= (7, 0)
    assert machine.devices
    assert [optimizer.device for optimizer in facts.optimizers] == ["cuda:0"]
    assert facts.calls["empty_cache"] > 0
    assert facts.calls["synchronize"] > 0
    text_by_fix = {
        proposal.fix: describe_proposal(proposal)
        for fix in listing.FIXES
        for proposal in fix(facts)
    }
    assert text_by_fix["pin-memory"].startswith("same: ")
    assert text_by_fix["fused"].startswith("equivalent: AdamW")
    assert text_by_fix["foreach"].endswith("uses foreach on CUDA by default")
    assert text_by_fix["no-empty-cache"].startswith("same: ")
    assert text_by_fix["no-synchronize"].startswith("risky: ")
    assert text_by_fix["channels-last"].startswith("equivalent: ")
    assert text_by_fix["compile-reduce-overhead"].startswith("risky: ")
    if machine.capability >= (8, 0):
        assert text_by_fix["tf32"].startswith("risky: ")
        assert text_by_fix["bf16"].startswith("risky: ")
