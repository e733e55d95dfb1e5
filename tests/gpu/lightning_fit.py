"""A Lightning training, as its documentation writes it."""

import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        inputs, classes = batch
        return nn.functional.cross_entropy(self.net(inputs), classes)

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        inputs, classes = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(inputs), classes))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


lightning.seed_everything(1)
data = TensorDataset(torch.randn(2048, 64), torch.randint(0, 10, (2048,)))
trainer = lightning.Trainer(
    max_epochs=3,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    enable_checkpointing=False,
)
model = Classifier()
trainer.fit(model, DataLoader(data, 32, num_workers=2), DataLoader(data, 256))
total = sum(parameter.double().sum().item() for parameter in model.parameters())
sys.stdout.write(f"{total:.9f} {torch.rand(()).item():.9f}\n")
