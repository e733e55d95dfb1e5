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
    ddp_net = nn.parallel.DistributedDataParallel(net, **options)
    optimizer = torch.optim.AdamW(ddp_net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=8.0)
    torch.manual_seed(2 + distributed.get_rank())
    losses = list[float]()
    for micro_batches in STEPS:
        for _ in range(micro_batches):
            loss = ddp_net(torch.randn(6, 4, dtype=torch.float64)).square().mean()
            scaler.scale(loss / K).backward()
            losses.append(loss.item())
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(ddp_net.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        with torch.no_grad():
            ddp_net(torch.randn(6, 4, dtype=torch.float64))
    weights = [parameter.flatten().tolist() for parameter in net.parameters()]
    return {"losses": losses, "weights": weights, "facts": facts(ddp_net)}


def facts(ddp_net: Any) -> dict[str, Any]:  # noqa: ANN401
    names = "find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers"
    options = {name: getattr(ddp_net, name) for name in names}
    return {**options, "bucket_cap_mb": ddp_net.bucket_bytes_cap / 2**20}


def count_reductions() -> list[int]:
    """Count the reductions of this process from now on."""
    calls = [0]
    original_init = nn.parallel.DistributedDataParallel.__init__

    def hook(group: object, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        calls[0] += 1
        return default_hooks.allreduce_hook(group, bucket)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def init_with_hook(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original_init(self, *args, **kwargs)
        self.register_comm_hook(None, hook)

    nn.parallel.DistributedDataParallel.__init__ = init_with_hook  # type: ignore[method-assign]
    return calls


def train_side(edits: list[dict[str, Any]], n_ways: int, calls: list[int]) -> dict[str, Any]:
    """Train in so many ways with these edits laid."""
    unobserved, facts_by_edit = list[str](), dict[int, Any]()

    def fact(_noun: str, _entity: object, values: dict[str, Any], _location: object = None) -> int:
        facts_by_edit[values["edit"]] = values
        return 0

    def note(_topic: str, why: str) -> None:
        unobserved.append(why)

    recorder.report_unobserved, recorder.fact = note, fact
    ways: list[dict[str, bool]] = [{"clip": False}, {"clip": True}, {"clip": True, "scaled": True}]
    way_results, n_reductions = list[Any](), list[int]()
    overlay.apply(edits)
    for options in ways[:n_ways]:
        n_before = calls[0]
        way_results.append(train(**options))
        n_reductions.append(calls[0] - n_before)
    overlay.revert()
    return {
        "ways": way_results,
        "reduced": n_reductions,
        "unseen": unobserved,
        "told": list(facts_by_edit.values()),
    }


def main(sides: str, out: str) -> None:
    """Be two ranks; write what each found of each side."""
    torch.set_num_threads(1)  # the ranks share few cores
    child = os.fork()
    rank = 0 if child else 1
    distributed.init_process_group(
        "gloo", init_method=f"file://{out}.meet", rank=rank, world_size=2
    )
    calls = count_reductions()
    edits_by_side: dict[str, Any] = json.loads(sides)
    results = {
        name: train_side(edits, n_ways, calls) for name, (edits, n_ways) in edits_by_side.items()
    }
    Path(f"{out}.{rank}.json").write_text(json.dumps(results))
    distributed.destroy_process_group()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
