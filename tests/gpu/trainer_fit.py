"""A Hugging Face Trainer on a model of our own, without the hub."""

import sys
import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed


class Rows(Dataset):
    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        draw = torch.Generator().manual_seed(index)
        return {"x": torch.randn(64, generator=draw), "labels": torch.tensor(index % 10)}


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


set_seed(1)
model = Classifier()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=32,
        num_train_epochs=2,
        gradient_accumulation_steps=2,
        dataloader_num_workers=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    Trainer(model=model, args=arguments, train_dataset=Rows()).train()
total = sum(parameter.double().sum().item() for parameter in model.parameters())
sys.stdout.write(f"{total:.6f} {torch.rand(()).item():.9f}\n")
