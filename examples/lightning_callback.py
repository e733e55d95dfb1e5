"""Lightning, with gapless as a callback: the verdict is a line of Lightning's log.

python examples/lightning_callback.py
"""

import lightning.pytorch as lightning
import torch
from torch import nn
from torch.utils.data import DataLoader
from train_small import SlowSamples

from gapless.integrations.lightning import GaplessCallback


class SmallModel(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def training_step(self, batch, _):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.layers(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    trainer = lightning.Trainer(
        max_steps=80, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, callbacks=[GaplessCallback(steps=50)],
    )  # fmt: skip
    trainer.fit(SmallModel(), DataLoader(SlowSamples(320), batch_size=4, num_workers=1))
    print(f"trained {trainer.global_step} steps")


if __name__ == "__main__":
    main()
