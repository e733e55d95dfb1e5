"""Fixes in the terms of the framework that runs a training's loop.

Where ``Trainer.train()`` or ``Trainer.fit()`` makes the loop, loaders, optimizers and precision are
its arguments: what a fix names (``DataLoader(num_workers=…)``) stands in no line of the user's.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gapless.model.finding import Loss
from gapless.model.seen import Seen

_LOOPS: Final = {  # modules whose functions run the loop of a training
    "transformers": re.compile(r"(^|[/\\])transformers[/\\]trainer\.py$"),
    "lightning": re.compile(r"(^|[/\\])(pytorch_lightning|lightning[/\\]pytorch)[/\\]"),
}
_IN: Final = {"transformers": "TrainingArguments", "lightning": "Lightning"}
_LOADER: Final = "in train_dataloader, DataLoader({})"
# By framework, then by fix: what sets it there; "{}" is the value that is asked for.
ADVICE: Final[Mapping[str, Mapping[str, str]]] = {
    "transformers": {
        "more-workers": "dataloader_num_workers={}",
        "workers-and-one-thread": "dataloader_num_workers={}",
        "persistent-workers": "dataloader_persistent_workers=True",
        "prefetch": "dataloader_prefetch_factor={}",
        "pin-memory": "dataloader_pin_memory=True",
        "batch-size": "per_device_train_batch_size={}",
        "fused": 'optim="adamw_torch_fused"',
        "bf16": "bf16=True",
        "fp16": "fp16=True",
        "tf32": "tf32=True",
        "compile": "torch_compile=True",
        "compile-reduce-overhead": 'torch_compile_mode="reduce-overhead"',
        "checkpointing-off": "gradient_checkpointing=False",
        "ddp-no-unused": "ddp_find_unused_parameters=False",
        "ddp-buckets": "ddp_bucket_cap_mb={}",
        "log-every": "a larger logging_steps",
        "checkpoint-every": "a larger save_steps",
        "evaluate-every": "a larger eval_steps",
    },
    "lightning": {
        "more-workers": _LOADER.format("num_workers={}"),
        "workers-and-one-thread": _LOADER.format("num_workers={}"),
        "persistent-workers": _LOADER.format("persistent_workers=True"),
        "prefetch": _LOADER.format("prefetch_factor={}"),
        "pin-memory": _LOADER.format("pin_memory=True"),
        "out-of-order": _LOADER.format("in_order=False"),
        "fused": "in configure_optimizers, the optimizer with fused=True",
        "foreach": "in configure_optimizers, the optimizer with foreach=True",
        "bf16": 'Trainer(precision="bf16-mixed")',
        "fp16": 'Trainer(precision="16-mixed")',
        "compile": "torch.compile(module) before Trainer.fit",
        "cudnn-benchmark": "Trainer(benchmark=True)",
        "debug-off": "Trainer(detect_anomaly=False)",
        "ddp-no-unused": "DDPStrategy(find_unused_parameters=False)",
        "ddp-static-graph": "DDPStrategy(static_graph=True)",
        "ddp-bucket-view": "DDPStrategy(gradient_as_bucket_view=True)",
        "log-every": "Trainer with a larger log_every_n_steps",
        "checkpoint-every": "ModelCheckpoint with a larger every_n_train_steps",
        "evaluate-every": "Trainer with a larger val_check_interval or check_val_every_n_epoch",
    },
}
# Causes that no fix is for, and that a framework has a switch for.
CAUSES: Final[Mapping[str, Mapping[str, str]]] = {
    "transformers": {"padded-batches": "group_by_length=True"},
    "lightning": {
        "profiler-left-on": "Trainer(profiler=None)",
        "deterministic-algorithms": "Trainer(deterministic=False)",
    },
}


def framework(seen: Seen) -> str | None:
    """Give the framework whose functions run the loop; ``None``: none was seen to.

    By the window with stacks: the name of the module of the functions that more time went through.
    """
    spent = {
        name: sum(one.host_total_ns for one in seen.study.tables.lines if path.search(one.file))
        for name, path in _LOOPS.items()
    }
    name = max(spent, key=lambda one: spent[one])
    return name if spent[name] else None


def advice(name: str, fix: str) -> str | None:
    """Give how a framework is told of a fix ("more-workers=8"); ``None``: it has no word for it."""
    kind, _, value = fix.partition("=")
    told = ADVICE[name].get(kind.partition("@")[0])
    if told is None or "{}" not in told:
        return told
    return told.format(value) if value else None


def advised(seen: Seen, loss: Loss) -> Loss:
    """Add to what is to be done about a loss how its framework is told to."""
    name = framework(seen)
    if name is None:
        return loss
    words = (CAUSES[name].get(loss.name), *(advice(name, fix) for fix in loss.helps))
    known = tuple(dict.fromkeys(one for one in words if one is not None))
    if not known:
        return loss
    told = f"With {_IN[name]}: {'; '.join(known)}."
    by_hand = (loss.no_remedy or "").rstrip(".")
    return replace(loss, no_remedy=f"{by_hand}. {told}" if by_hand else told)
