"""G: a vision transformer, trained by a trainer with arguments and callbacks."""
# pyright: basic

import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import DataLoader, Dataset

from tests.zoo.job import Job, Steps

USUAL = {
    "workers": 0,
    "worker_threads": None,
    "pin": False,
    "features_ms": 0.0,  # of computing, by a matrix product, for each sample
    "log_every": 20,
    "slow_log": 0,  # numbers that each log line is made of
    "board_every": 0,  # steps after which TensorBoard gets a histogram of each parameter
    "foreach": None,
    "fused": None,
    "amp": False,
    "benchmark": False,
    "anomaly": False,
    "naive_clip": False,  # norms one by one, read one by one
    "synchronize": False,
    "threads": None,
    "compiled": False,  # layer by layer
}
SIZES = {
    "c": {"side": 32, "patch": 8, "wide": 64, "layers": 2, "heads": 4, "batch": 16, "count": 256},
    "g": {
        "side": 224,
        "patch": 16,
        "wide": 768,
        "layers": 12,
        "heads": 12,
        "batch": 64,
        "count": 512,
    },
}


class Samples(Dataset[dict[str, Tensor]]):
    """Made-up pictures, as dictionaries."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        shape = (options.count, 3, options.side, options.side)
        self.pictures = torch.randint(256, shape, dtype=torch.uint8)
        self.mixing = torch.randn(256, 256)

    def __len__(self) -> int:
        return 5000 * self.options.batch

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        picture = self.pictures[index % self.options.count]
        for _ in range(int(self.options.features_ms * 10)):
            torch.mm(self.mixing, self.mixing)
        return {"pixel_values": picture, "labels": torch.tensor(index % 100)}


class Layer(nn.Module):
    """A layer of the transformer, norms first."""

    def __init__(self, wide: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(wide)
        self.qkv = nn.Linear(wide, 3 * wide)
        self.out = nn.Linear(wide, wide)
        self.norm2 = nn.LayerNorm(wide)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))

    def forward(self, x: Tensor) -> Tensor:
        batch, count, wide = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, count, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, count, wide)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches of a picture through a transformer."""

    def __init__(self, options: Namespace) -> None:
        super().__init__()
        wide = options.wide
        self.patches = nn.Conv2d(3, wide, options.patch, options.patch)
        count = (options.side // options.patch) ** 2
        self.places = nn.Parameter(torch.zeros(1, count, wide))
        layers = (Layer(wide, options.heads) for _ in range(options.layers))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(wide)
        self.head = nn.Linear(wide, 100)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.patches(pixel_values).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.layers(x)).mean(1))


class LogCallback:
    """Write down how it goes."""

    def __init__(self, every: int, numbers: int) -> None:
        self.every, self.numbers = every, numbers
        self.file = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def on_step_end(self, step: int, loss: Tensor, model: nn.Module) -> None:
        if step % self.every == 0:
            values = next(iter(model.parameters())).detach().flatten()[: self.numbers].tolist()
            self.file.write(f"step {step} loss {loss.item():.4f} {values}\n")
            self.file.flush()


class BoardCallback:
    """Show TensorBoard how it goes."""

    def __init__(self, every: int) -> None:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]

        self.every, self.folder = every, tempfile.mkdtemp(prefix="gapless-zoo-")
        self.file = SummaryWriter(self.folder)

    def on_step_end(self, step: int, loss: Tensor, model: nn.Module) -> None:
        if step % self.every == 0:
            self.file.add_scalar("loss", loss.item(), step)
            for name, weight in model.named_parameters():
                self.file.add_histogram(name, weight.detach().cpu().numpy(), step)


class Trainer:
    """Train a model on a data set."""

    def __init__(self, job: Job) -> None:
        self.args, self.model, self.data, self.device = job.options, job.model, job.data, job.device
        self.loader_arguments = job.loader
        self.callbacks: list[LogCallback | BoardCallback]
        self.callbacks = [LogCallback(self.args.log_every, self.args.slow_log)]
        if self.args.board_every:
            self.callbacks.append(BoardCallback(self.args.board_every))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, foreach=self.args.foreach, fused=self.args.fused
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda _step: 1.0)

    def get_train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        return DataLoader(self.data, **self.loader_arguments)

    def prepare_inputs(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.to(self.device) for name, value in inputs.items()}

    def compute_loss(self, inputs: dict[str, Tensor]) -> Tensor:
        labels = inputs.pop("labels")
        pixels = inputs.pop("pixel_values").float().div(255)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.args.amp):
            return cross_entropy(self.model(pixels), labels)

    def training_step(self, inputs: dict[str, Tensor]) -> Tensor:
        self.model.train()
        loss = self.compute_loss(self.prepare_inputs(inputs))
        loss.backward()
        return loss.detach()

    def clip(self) -> None:
        if not self.args.naive_clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            return
        gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
        total = sum(gradient.norm().item() ** 2 for gradient in gradients) ** 0.5
        for gradient in gradients:
            gradient.mul_(min(1.0, 1.0 / (total + 1e-6)))

    def train(self) -> Iterator[None]:
        step = 0
        while True:
            for inputs in self.get_train_dataloader():
                loss = self.training_step(inputs)
                self.clip()
                self.optimizer.step()
                self.scheduler.step()
                self.model.zero_grad()
                step += 1
                for callback in self.callbacks:
                    callback.on_step_end(step, loss, self.model)
                if self.args.synchronize and self.device.type == "cuda":
                    torch.cuda.synchronize()
                yield


def more_threads(_worker: int) -> None:
    """Let a worker compute on many threads, as some libraries do unasked."""
    torch.set_num_threads(8)


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    loader = {
        "batch_size": options.batch,
        "shuffle": True,
        "num_workers": options.workers,
        "pin_memory": options.pin,
        "worker_init_fn": more_threads if options.worker_threads else None,
    }
    period = options.log_every
    return Job(ViT(options).to(device), Samples(options), device, options, train, loader, period)


def train(job: Job) -> Steps:
    if job.options.threads is not None:
        torch.set_num_threads(job.options.threads)
    torch.autograd.set_detect_anomaly(job.options.anomaly)
    for layer in job.model.modules():
        compiled = vars(layer).get("_compiled_call_impl") is not None
        if job.options.compiled and isinstance(layer, Layer) and not compiled:
            layer.compile()
    trainer = Trainer(job)
    try:
        yield from trainer.train()
    finally:
        torch.autograd.set_detect_anomaly(False)
        for callback in trainer.callbacks:
            callback.file.close()
            if isinstance(callback, BoardCallback):
                shutil.rmtree(callback.folder)
