"""A training of two ranks on the CPU."""

import os
import sys

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
distributed.init_process_group("gloo")
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
with open(f"rank{os.environ['RANK']}.txt", "w") as file:  # noqa: PTH123
    print(next(iter(model.parameters())).sum().item(), file=file)
