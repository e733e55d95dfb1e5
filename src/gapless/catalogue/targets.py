"""What the edits of the fixes are about, by qualified name."""

from typing import Final

LOADER: Final = "torch.utils.data.DataLoader"
MODULE: Final = "torch.nn.Module"
OPTIMIZER: Final = "torch.optim.Optimizer"
DDP: Final = "torch.nn.parallel.DistributedDataParallel"
