"""A training of three steps: what is around it is all that can be measured.

It writes when its first line ran, on the monotonic clock, if it is told where.
"""

import sys
import time

begun = time.monotonic_ns()

import torch  # noqa: E402

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    weight.sum().backward()
    optimizer.step()
with open(sys.argv[1], "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not free
    file.write(str(begun))
