# %% [markdown]
# # Outline the spots
# A U-Net on small pictures. Kernel died twice, so memory is cleaned up as we go.

# %%
import argparse
import gc

import torch
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--iterations", type=int, default=200)
opt = ap.parse_args()
SIZE, BATCH, SEED = 40, 8, 28
torch.manual_seed(SEED)

# %% pictures: round spots on skin, and where they are
ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")


def picture():
    cy, cx = torch.randint(10, SIZE - 10, (2,))
    r = torch.randint(4, 10, (1,))
    mask = ((ys - cy) ** 2 + (xs - cx) ** 2 < r**2).float()
    skin = 0.7 + 0.1 * torch.randn(3, SIZE, SIZE)
    return skin - 0.3 * mask, mask[None]


pairs = [picture() for _ in range(400)]
X, Y = (torch.stack(column) for column in zip(*pairs))


# %% network
def double(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.d1, self.d2, self.d3 = double(3, c), double(c, 2 * c), double(2 * c, 4 * c)
        self.u2, self.u1 = double(6 * c, 2 * c), double(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        x = self.d3(F.max_pool2d(b, 2))
        x = self.u2(torch.cat([F.interpolate(x, scale_factor=2), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(x, scale_factor=2), a], 1)))


def dice(logits, y):
    p = logits.sigmoid()
    return 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)


# %% training
net = UNet()
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
debug = True  # loss was nan on Monday
curve = []
for it in range(opt.iterations):
    pick = torch.randint(len(X), (BATCH,))
    x, y = X[pick], Y[pick]
    with torch.autograd.set_detect_anomaly(debug):
        logits = net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y) + dice(logits, y).mean()
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
    curve.append(loss.item())
    del x, y, logits, loss
    if it % 8 == 0:
        gc.collect()
    if it % 50 == 49:
        print(it + 1, f"{sum(curve[-50:]) / 50:.6f}")
