"""A training that tells at its end how much memory it and one of its workers took."""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH = 32
STATUS, ROLLUP = Path("/proc/self/status"), Path("/proc/self/smaps_rollup")


def memory() -> dict[str, int]:
    """Return bytes: the peak resident, and now: resident, proportional, this process's own."""
    lines = [line.split() for file in (STATUS, ROLLUP) for line in file.read_text().splitlines()]
    told = {line[0]: int(line[1]) << 10 for line in lines if line[-1] == "kB"}
    own = told["Private_Clean:"] + told["Private_Dirty:"]
    return {"peak": told["VmHWM:"], "resident": told["Rss:"], "pss": told["Pss:"], "own": own}


class Samples(Dataset[Any]):
    """So many samples; to fetch the last one writes what the process takes."""

    def __init__(self, count: int, out: Path) -> None:
        self.count, self.out = count, out

    def __len__(self) -> int:
        """Count the samples."""
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return a sample."""
        if index == self.count - 1:
            (self.out / "worker.json").write_text(json.dumps(memory()))
        return torch.full((8, WIDTH), float(index))


def main() -> None:
    """Train, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 64, batch_first=True)
    net = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
    data = Samples(4 * options.steps, options.out)
    for inputs in DataLoader(data, batch_size=4, num_workers=1):
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()
    (options.out / "training.json").write_text(json.dumps(memory()))


if __name__ == "__main__":
    main()
