"""A vocabulary of causes that belongs to no tool, so that answers and menus can be compared.

A menu's variant is a training written without some fault; a tool names a cause in its own words.
Both are put into the words below: variants by what their options or rewritten lines are about,
causes of tools by their names. What is not on these lists is neither right nor wrong.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.strangers.cases import CASES as STRANGERS
from tests.zoo.cases import CASES as ZOO

# What the zoo's options are about: the option that a variant sets → what that may be called.
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "storage_ms": ("reading",),
    "fetch_ms": ("reading",),
    "decodes": ("making samples",),
    "spin_ms": ("making samples",),
    "tail_ms": ("slow samples", "queue"),
    "features_ms": ("making samples",),
    "python_features": ("making samples",),
    "slow_collate": ("collating",),
    "many_tensors": ("collating", "making samples"),
    "whole_batches": ("sample by sample",),
    "worker_threads": ("threads",),
    "item_every_step": ("synchronising",),
    "item_every_action": ("synchronising",),
    "metrics": ("synchronising",),
    "synchronize": ("synchronising",),
    "hooks": ("hooks",),
    "anomaly": ("debugging",),
    "log_every": ("logging",),
    "save_every": ("checkpoints",),
    "evaluate_every": ("evaluation",),
    "ema": ("averaging weights",),
    "naive_clip": ("clipping",),
    "collect_every": ("collecting",),
    "garbage": ("collecting",),
    "empty_cache": ("allocating",),
    "sparse": ("dense gradients",),
    "double_loss": ("double precision",),
    "pad_to_most": ("padding",),
    "buckets": ("padding",),
    "naive_attention": ("attention",),
    "checkpointing": ("recomputing",),
    "no_sync": ("reducing too often",),
    "slow_rank_ms": ("a slow rank",),
    "non_blocking": ("copies",),
    "hard_only": ("synchronising",),
    "on_host": ("making samples",),
    "left_on_cpu": ("the GPU is not used",),
    "room": ("allocating",),
    "pieces": ("collating",),
    "scored_every": ("Python in the step",),
    "blurred": ("making samples",),
    "tokenised": ("making samples",),
    "graphs": ("needless gradients",),
    "board_every": ("logging",),
    "watched": ("synchronising", "logging"),
    "ahead": ("copies",),
    "neighbour": ("others on the GPU",),
}
# What the rewritten lines of strangers are about: (case, variant) → what that may be called.
REWRITTEN: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("molecules", "pairs"): ("making samples",),
    ("weather", "reads"): ("reading",),
    ("skipgram", "stream"): ("making samples",),
    ("detector", "loop"): ("Python in the step",),
    ("distill", "gradients"): ("needless gradients",),
    ("forecast", "history"): ("logging",),
    ("pointcloud", "doubles"): ("double precision",),
    ("pinn", "print"): ("logging",),
    ("gan", "prints"): ("logging",),
    ("actor", "asking"): ("sample by sample", "Python in the step"),
    ("basket", "tables"): ("dense gradients",),
    ("tagger", "padding"): ("padding",),
    ("clicks", "rows"): ("sample by sample", "collating", "making samples"),
    ("denoise", "average"): ("averaging weights",),
    ("denoise", "clip"): ("clipping",),
    ("melody", "again"): ("recomputing",),
    ("citation", "normal"): ("needless work",),
    ("lesions", "collect"): ("collecting",),
    ("lesions", "debug"): ("debugging",),
    ("heat", "unseen"): ("evaluation",),
    ("hazard", "report"): ("logging",),
    ("contrast", "logs"): ("logging",),
    ("letters", "saves"): ("checkpoints", "logging"),
}
# A word in the name that a tool gives to a cause → what it may mean. Several are tried in turn.
WORDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (r"read-bound|storage|reading|\bio-bound", ("reading",)),
    (r"decod|augment|tokeni[sz]|transform|sample-bound|item-bound", ("making samples",)),
    (r"preprocess", ("making samples",)),
    (r"slow-sample", ("slow samples", "making samples")),
    (r"heavy-tail|tail", ("slow samples",)),
    (r"too-few-workers|loader-in-training", ("workers",)),
    (r"restarted-workers", ("restarts",)),
    (r"shallow-prefetch", ("queue",)),
    (r"collat|small-tensors|hand-over", ("collating",)),
    (r"pageable|blocking-copy|exposed-copy|small-copies", ("copies",)),
    (r"thread|oversubscri", ("threads",)),
    (r"sync|scalar-read|read-back|\bitem\b|nonzero|data-dependent", ("synchronising",)),
    (r"hook", ("hooks",)),
    (r"python|host-bound|interpreter", ("Python in the step", "hooks", "averaging weights")),
    (r"debug|anomaly", ("debugging",)),
    (r"logg|print", ("logging",)),
    (r"checkpoint(?!ing)|saving|save", ("checkpoints",)),
    (r"checkpointing|recomput", ("recomputing",)),
    (r"evaluat|validat", ("evaluation",)),
    (r"averag|\bema\b|per-parameter", ("averaging weights", "clipping")),
    (r"clip", ("clipping",)),
    (r"collector|garbage|\bgc\b", ("collecting",)),
    (r"alloc|empty-cache|emptied-cache", ("allocating",)),
    (r"dense-gradient|sparse", ("dense gradients",)),
    (r"double|fp64|float64", ("double precision",)),
    (r"padd", ("padding",)),
    (r"attention|sdpa", ("attention",)),
    (r"single-precision|full-precision|fp32", ("precision",)),
    (r"channels-first|layout", ("layout",)),
    (r"optimizer", ("optimizer",)),
    (r"needless-grad|autograd|frozen", ("needless gradients",)),
    (r"no-sync|reduc(?:ed|tion)|accumulat", ("reducing too often",)),
    (r"stragg|slow-rank|imbalance", ("a slow rank",)),
    (r"unused-device|unused-gpu", ("the GPU is not used",)),
    (r"shared-device|neighbour", ("others on the GPU",)),
)
# What a fix of the catalogue's is against.
CAUSE_OF_FIX: Final[Mapping[str, str]] = {
    "more-workers": "workers",
    "workers-and-one-thread": "workers",
    "persistent-workers": "restarts",
    "prefetch": "queue",
    "worker-threads": "threads",
    "intra-op-threads": "threads",
    "one-thread": "threads",
    "pin-memory": "copies",
    "non-blocking": "copies",
    "device-prefetcher": "copies",
    "no-synchronize": "synchronising",
    "no-empty-cache": "allocating",
    "debug-off": "debugging",
    "collector": "collecting",
    "fused": "optimizer",
    "foreach": "optimizer",
    "tf32": "precision",
    "bf16": "precision",
    "fp16": "precision",
    "channels-last": "layout",
    "sdpa": "attention",
    "checkpointing-off": "recomputing",
    "no-sync": "reducing too often",
}
# What edits without a name of the catalogue's are against, by what they change.
CAUSE_OF_TARGET: Final[Mapping[str, str]] = {"gc.collect": "collecting"}
# What a fix changes: the families by which predictions are counted.
FAMILY_OF: Final[Mapping[str, str]] = {
    "more-workers": "feed",
    "workers-and-one-thread": "feed",
    "prefetch": "feed",
    "persistent-workers": "feed",
    "out-of-order": "feed",
    "worker-threads": "feed",
    "cached-batch": "feed",
    "cached-batch-on-device": "feed",
    "pin-memory": "copy",
    "non-blocking": "copy",
    "device-prefetcher": "copy",
    "no-synchronize": "sync",
    "intra-op-threads": "host",
    "one-thread": "host",
    "debug-off": "host",
    "fused": "host",
    "foreach": "host",
    "set-to-none": "host",
    "no-empty-cache": "host",
    "no-sync": "comm",
    "no-logging": "tail",
    "no-checkpoint": "tail",
    "no-evaluation": "tail",
    "collector": "tail",
    "tf32": "kernel",
    "bf16": "kernel",
    "fp16": "kernel",
    "channels-last": "kernel",
    "cudnn-benchmark": "kernel",
    "compile": "kernel",
    "sdpa": "kernel",
    "checkpointing-off": "kernel",
}
_FAMILY_OF_CAUSE: Final[Mapping[str, str]] = {
    "reading": "feed",
    "making samples": "feed",
    "slow samples": "feed",
    "collating": "feed",
    "synchronising": "sync",
    "logging": "tail",
    "checkpoints": "tail",
    "evaluation": "tail",
    "collecting": "tail",
    "dense gradients": "kernel",
    "double precision": "kernel",
    "padding": "kernel",
    "attention": "kernel",
    "recomputing": "kernel",
    "needless gradients": "kernel",
    "reducing too often": "comm",
    "a slow rank": "comm",
}
Against = tuple[frozenset[str], ...]  # a cause each, with the words that it may have
KERNELS: Final = "kernel"  # the family whose edits change kernels; all others are structural


def against_of_edits(fix: str | None, edits: Iterable[Mapping[str, Any]]) -> Against:
    """Return what a line of edits is against; nothing where no list has it."""
    if fix is not None:
        return (frozenset({CAUSE_OF_FIX[fix]}),) if fix in CAUSE_OF_FIX else ()
    causes = (CAUSE_OF_TARGET.get(str(edit.get("target"))) for edit in edits)
    return tuple(frozenset({cause}) for cause in causes if cause is not None)


def against_of(case: str, variant: str) -> Against:
    """Return what a variant of a case does away with: a cause each, in the words that it may have.

    A cause of its own where no list has it.
    """
    if case in STRANGERS:
        return (frozenset(REWRITTEN.get((case, variant), (f"{case}: {variant}",))),)
    options: Iterable[str] = ZOO[case].variant(variant) if case in ZOO else (variant,)
    return tuple(dict.fromkeys(frozenset(OPTIONS.get(option, (option,))) for option in options))


def family_of(against: Against) -> str:
    """Return the family of what does away with some causes."""
    causes = (word for words in against for word in sorted(words))
    families = (_FAMILY_OF_CAUSE[cause] for cause in causes if cause in _FAMILY_OF_CAUSE)
    return next(families, "host")


def causes_named(name: str) -> frozenset[str]:
    """Return the causes that a tool may mean by what it calls one."""
    words = name.lower().replace(" ", "-").replace("_", "-")
    matches = (causes for pattern, causes in WORDS if re.search(pattern, words))
    return frozenset(cause for causes in matches for cause in causes)
