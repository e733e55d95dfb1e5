"""Two ranks with DistributedDataParallel, one of which loads more slowly: started by torchrun."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

SIDE, STEPS = 1024, 150


class Rows(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return STEPS * 32

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if dist.get_rank() == 1 and index % 32 == 0:
            time.sleep(0.02)  # the straggler: one slow file in each batch
        return torch.randn(SIDE), index % 10


def main() -> None:
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    layers = [part for _ in range(8) for part in (nn.Linear(SIDE, SIDE), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Linear(SIDE, 10)).to(device)
    model = DistributedDataParallel(net, device_ids=[rank] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss = torch.zeros(())
    for inputs, classes in DataLoader(Rows(), batch_size=32):
        loss = nn.functional.cross_entropy(model(inputs.to(device)), classes.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
