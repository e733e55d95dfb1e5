# pyright: reportUnknownVariableType=false, reportPrivateImportUsage=false
"""Train on two ranks, with edits of several sides laid: ``SIDES OUT``."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from gapless.payload import overlay, recorder

K = 4  # micro-batches of a step
STEPS = (K, K, 3, K, 1)  # of these; the third and fifth are cut short


def train(*, clip: bool, scaled: bool = False, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 1)).double()
    spread = nn.parallel.DistributedDataParallel(net, **options)
    optimizer = torch.optim.AdamW(spread.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=8.0)
    torch.manual_seed(2 + distributed.get_rank())
    losses = list[float]()
    for micro_batches in STEPS:
        for _ in range(micro_batches):
            loss = spread(torch.randn(6, 4, dtype=torch.float64)).square().mean()
            scaler.scale(loss / K).backward()
            losses.append(loss.item())
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(spread.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        with torch.no_grad():
            spread(torch.randn(6, 4, dtype=torch.float64))
    weights = [one.flatten().tolist() for one in net.parameters()]
    return {"losses": losses, "weights": weights, "facts": facts(spread)}


def facts(spread: Any) -> dict[str, Any]:  # noqa: ANN401
    names = "find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers"
    found = {name: getattr(spread, name) for name in names}
    return {**found, "bucket_cap_mb": spread.bucket_bytes_cap / 2**20}


def counted() -> list[int]:
    """Count the reductions of this process from now on."""
    calls = [0]
    before = nn.parallel.DistributedDataParallel.__init__

    def hook(group: object, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        calls[0] += 1
        return default_hooks.allreduce_hook(group, bucket)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def make(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        before(self, *args, **kwargs)
        self.register_comm_hook(None, hook)

    nn.parallel.DistributedDataParallel.__init__ = make  # type: ignore[method-assign]
    return calls


def side(edits: list[dict[str, Any]], many: int, calls: list[int]) -> dict[str, Any]:
    """Train in so many ways with these edits laid."""
    unseen, told = list[str](), dict[int, Any]()

    def fact(_noun: str, _thing: object, values: dict[str, Any], _place: object = None) -> int:
        told[values["edit"]] = values
        return 0

    def note(_what: str, why: str) -> None:
        unseen.append(why)

    recorder.unseen, recorder.fact = note, fact
    ways: list[dict[str, bool]] = [{"clip": False}, {"clip": True}, {"clip": True, "scaled": True}]
    found, reduced = list[Any](), list[int]()
    overlay.lay(edits)
    for options in ways[:many]:
        before = calls[0]
        found.append(train(**options))
        reduced.append(calls[0] - before)
    overlay.lift()
    return {"ways": found, "reduced": reduced, "unseen": unseen, "told": list(told.values())}


def main(sides: str, out: str) -> None:
    """Be two ranks; write what each found of each side."""
    torch.set_num_threads(1)  # the ranks share few cores
    child = os.fork()
    rank = 0 if child else 1
    distributed.init_process_group(
        "gloo", init_method=f"file://{out}.meet", rank=rank, world_size=2
    )
    calls = counted()
    wanted: dict[str, Any] = json.loads(sides)
    found = {name: side(edits, many, calls) for name, (edits, many) in wanted.items()}
    Path(f"{out}.{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
