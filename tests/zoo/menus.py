"""What a case's menu is made of: edits as data, named fixes, variants of the training."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Value = bool | float | str | None
Edit = Mapping[str, Any]  # as gapless.model.edit tells it in JSON

REMEDY, WRONG, DECOY, CEILING = "remedy", "wrong", "decoy", "ceiling"
LOADER = "torch.utils.data.DataLoader"
MODULE = "torch.nn.Module"
DDP = "torch.nn.parallel.DistributedDataParallel"


class Choice(Struct, frozen=True):
    """One line of a menu: a change whose gain is measured.

    Edits are laid over the training; ``fix`` is the name under which the catalogue has them. A
    variant is the training written otherwise, where no edit reaches: its author's own remedy.
    """

    name: str
    role: str  # what its author expects: remedy, wrong, decoy; ceiling: an ablation
    edits: tuple[Edit, ...] = ()
    fix: str | None = None
    variant: str | None = None


def argument(target: str, name: str, value: Value) -> Edit:
    """Return the edit that sets an argument of all calls of something."""
    return {"kind": "set_argument", "target": target, "name": name, "value": value, "where": None}


def setting(target: str, value: Value) -> Edit:
    """Return the edit that keeps an attribute, or what a setter sets, at a value."""
    return {"kind": "set_global", "target": target, "value": value}


def skip(target: str) -> Edit:
    """Return the edit that leaves calls out."""
    return {"kind": "skip", "target": target, "every": None, "where": None}


def wrap(target: str, wrapper: str, **options: Value) -> Edit:
    """Return the edit that sends something through a part of the overlay's."""
    return {"kind": "wrap", "target": target, "part": wrapper, "options": options, "where": None}


def named_fix(fix: str, role: str, *edits: Edit) -> Choice:
    """Return an edit of the catalogue's by its name, and its stand-in without the catalogue."""
    return Choice(fix.replace("=", "-"), role, edits, fix=fix)


def workers(count: int, role: str = REMEDY) -> Choice:
    """Return so many workers to each loader."""
    return named_fix(f"more-workers={count}", role, argument(LOADER, "num_workers", count))


def threads(count: int, role: str = WRONG) -> Choice:
    """Let the training compute on so many threads."""
    return named_fix(f"intra-op-threads={count}", role, setting("torch.set_num_threads", count))


def workers_and_thread(count: int, role: str = REMEDY) -> Choice:
    """Return workers, and let the training leave them a core."""
    edits = (argument(LOADER, "num_workers", count), setting("torch.set_num_threads", 1))
    return named_fix(f"workers-and-one-thread={count}", role, *edits)


def prefetch(count: int, role: str = WRONG) -> Choice:
    """Let each worker work so many batches ahead."""
    return named_fix(f"prefetch={count}", role, argument(LOADER, "prefetch_factor", count))


def pin_memory(role: str = DECOY) -> Choice:
    """Put batches into pinned memory."""
    return named_fix("pin-memory", role, argument(LOADER, "pin_memory", value=True))


def persistent_workers(role: str = DECOY) -> Choice:
    """Keep workers from one epoch to the next."""
    return named_fix("persistent-workers", role, argument(LOADER, "persistent_workers", value=True))


def out_of_order(role: str = WRONG) -> Choice:
    """Take batches as they are ready."""
    return named_fix("out-of-order", role, argument(LOADER, "in_order", value=False))


def cached_batch(role: str = CEILING) -> Choice:
    """Return one batch again and again."""
    return named_fix("cached-batch", role, wrap(LOADER, "cached-batch", device=False))


def fused_optimizer(kind: str, role: str) -> Choice:
    """Let the optimizer work in one kernel."""
    return named_fix("fused", role, argument(f"torch.optim.{kind}", "fused", value=True))


def unfused_optimizer(kind: str) -> Choice:
    """Let the optimizer work in many kernels."""
    return Choice("not-fused", WRONG, (argument(f"torch.optim.{kind}", "fused", value=False),))


def foreach(kind: str, role: str) -> Choice:
    """Let the optimizer work on all parameters at once."""
    return named_fix("foreach", role, argument(f"torch.optim.{kind}", "foreach", value=True))


def benchmark(role: str) -> Choice:
    """Let cuDNN try its algorithms."""
    return named_fix("cudnn-benchmark", role, setting("torch.backends.cudnn.benchmark", value=True))


def tf32(role: str) -> Choice:
    """Multiply matrices in TF32."""
    return named_fix("tf32", role, setting("torch.set_float32_matmul_precision", "high"))


def autocast(role: str) -> Choice:
    """Compute in bfloat16 where it can be."""
    return named_fix("bf16", role, wrap(MODULE, "autocast", dtype="bfloat16"))


def channels_last(role: str) -> Choice:
    """Lay out pictures channels last."""
    return named_fix("channels-last", role, wrap(MODULE, "channels-last"))


def compile_model(role: str) -> Choice:
    """Compile the model."""
    return named_fix("compile", role, wrap(MODULE, "compile", mode="default", dynamic=None))


def no_sync(role: str) -> Choice:
    """Average gradients in the last backward pass of a step only; of four."""
    return named_fix("no-sync", role, wrap(DDP, "no-sync", every=4))


def no_anomaly(role: str = REMEDY) -> Choice:
    """Switch anomaly detection off."""
    target = "torch.autograd.set_detect_anomaly"
    return named_fix("debug-off", role, setting(target, value=False))


def variant(name: str) -> Choice:
    """Write the training without its fault."""
    return Choice(f"without-{name.lower().replace(' ', '-')}", REMEDY, variant=name)


def skip_call(target: str, role: str, fix: str | None = None) -> Choice:
    """Leave calls of something out."""
    name = fix or f"skip-{target.replace('_', '-').replace('.', '-')}"
    return Choice(name, role, (skip(target),), fix)


def prefetcher(role: str) -> Choice:
    """Copy the next batch while this one is worked on."""
    edits = (wrap(LOADER, "device-prefetcher", ahead=1), argument(LOADER, "pin_memory", value=True))
    return named_fix("device-prefetcher", role, *edits)
