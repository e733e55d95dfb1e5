"""Ray Train starts the workers itself: each records the loop that it runs."""

from typing import Any

from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

import gapless


def train_loop(config: dict[str, Any]) -> None:
    """Train, recorded into a folder that all workers share."""
    with gapless.record(out=config["runs"]):
        train(config)


def train(config: dict[str, Any]) -> None:
    """Train as before."""


def main() -> None:
    """Train on 16 GPUs; afterwards: gapless report /shared/runs/train."""
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"runs": "/shared/runs/train"},
        scaling_config=ScalingConfig(num_workers=16, use_gpu=True),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
