"""A Trainer of Transformers, with gapless as a callback: the verdict is a line of its log.

python examples/transformers_callback.py
"""

import tempfile

from torch import nn
from train_small import SlowSamples
from transformers import Trainer, TrainingArguments

from gapless.integrations.transformers import GaplessTrainerCallback


class SmallModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, inputs, labels):
        scores = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(scores, labels), "scores": scores}


class NamedSamples(SlowSamples):
    def __getitem__(self, index):
        inputs, label = super().__getitem__(index)
        return {"inputs": inputs, "labels": label}


def main():
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=80, per_device_train_batch_size=4, use_cpu=True, report_to="none",
            save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            SmallModel(),
            arguments,
            train_dataset=NamedSamples(320),
            callbacks=[GaplessTrainerCallback(steps=50)],
        )
        trainer.train()
    print(f"trained {trainer.state.global_step} steps")


if __name__ == "__main__":
    main()
