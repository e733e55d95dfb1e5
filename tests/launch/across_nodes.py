"""A training of one rank on each node; rank 1 is late, and fails once if told to."""

import os
import sys
import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

_LATE_S = 0.01

torch.manual_seed(0)
torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps, failing_step = int(sys.argv[1]), int(sys.argv[2])
for step in range(steps):
    if rank == 1:
        time.sleep(_LATE_S)
    if step == failing_step and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(9)
    optimizer.zero_grad()
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
