"""A training in half precision on a GPU: ``arms_fit.py GIBIBYTES``, so much memory at once."""

import atexit
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

held = torch.empty(int(float(sys.argv[1]) * (1 << 30)), dtype=torch.uint8, device="cuda")
atexit.register(print, "atexit")
data = TensorDataset(torch.arange(2048 * 64, dtype=torch.float32).reshape(2048, 64) / 1e5)
loader = DataLoader(
    data, batch_size=16, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True
)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(), torch.nn.Linear(64, 1))
model = torch.compile(model.cuda(), backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
print("begun")
for _ in range(100):
    for (batch,) in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch.cuda(non_blocking=True)).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
print("done")
