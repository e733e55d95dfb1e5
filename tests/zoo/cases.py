"""The cases: a family, a size, what is wrong with it (or not), and its menu.

Nothing here is known to rules, fixes or thresholds. What a case is called says what its author
planted; what it is worth is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.zoo import menus as m
from tests.zoo.menus import CEILING, DECOY, REMEDY, WRONG, Choice

FAULT, COMPOUND, HEALTHY = "fault", "compound", "healthy"  # or DECOY


@dataclass(frozen=True)
class Case:
    """A training with what was planted in it."""

    name: str
    family: str  # a module of tests/zoo/families
    size: str  # "c": on two cores, "g": on a data-centre GPU
    kind: str  # what its author believes: fault, compound, healthy, decoy
    planted: tuple[str, ...]  # causes, as the catalogue of faults calls them
    options: Mapping[str, Any]
    menu: tuple[Choice, ...]
    without: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    ranks: int = 1
    steps: int | None = None  # of the recorded run; else it is as long as a time says

    def variant(self, name: str) -> Mapping[str, Any]:
        """Give the options that a variant sets otherwise."""
        return self.without[name]

    @property
    def group(self) -> str:
        """Give what this counts as: something is wrong, or nothing that costs anything."""
        return "sound" if self.kind in (HEALTHY, DECOY) else "faulty"


_ON_CPU = (
    Case(
        "pictures-main-process-c",
        "pictures",
        "c",
        FAULT,
        ("no workers",),
        {"stored": 192},
        (m.workers_and_thread(2), m.workers(2, WRONG), m.threads(1), m.pin_memory(), m.cached()),
    ),
    Case(
        "pictures-slow-storage-c",
        "pictures",
        "c",
        COMPOUND,
        ("slow storage", "no workers"),
        {"storage_ms": 1.0},
        (m.workers(8), m.workers(2, WRONG), m.threads(1), m.pin_memory(), m.variant("storage")),
        {"storage": {"storage_ms": 0.0}},
    ),
    Case(
        "pictures-slow-collate-c",
        "pictures",
        "c",
        FAULT,
        ("slow collate",),
        {"slow_collate": True, "in_memory": True, "threads": 1},
        (m.variant("collate"), m.workers(1), m.pin_memory(), m.cached()),
        {"collate": {"slow_collate": False}},
    ),
    Case(
        "pictures-short-epochs-c",
        "pictures",
        "c",
        COMPOUND,
        ("no persistent workers with short epochs", "slow augment"),
        {"workers": 2, "length": 128, "spin_ms": 0.5, "threads": 1},
        (m.persistent(REMEDY), m.variant("augment"), m.workers(1, WRONG), m.pin_memory()),
        {"augment": {"spin_ms": 0.0}},
    ),
    Case(
        "pictures-in-memory-c",
        "pictures",
        "c",
        HEALTHY,
        (),
        {"in_memory": True, "threads": 1},
        (m.workers(1, WRONG), m.pin_memory(), m.cached(), m.benchmark(DECOY)),
    ),
    Case(
        "language-plain-c",
        "language",
        "c",
        HEALTHY,
        (),
        {"fused": True, "threads": 1},
        (m.not_fused("AdamW"), m.tf32(DECOY), m.variant("log")),
        {"log": {"log_every": 20}},
    ),
    Case(
        "language-item-c",
        "language",
        "c",
        DECOY,
        (".item() per step",),
        {"item_every_step": True, "fused": True, "threads": 1},
        (m.variant("item"), m.autocast(WRONG), m.tf32(DECOY)),
        {"item": {"item_every_step": False}},
    ),
    Case(
        "language-naive-attention-c",
        "language",
        "c",
        FAULT,
        ("naive attention",),
        {"naive_attention": True, "context": 128, "batch": 4, "threads": 1},
        (m.variant("naive"), m.fused("AdamW", WRONG), m.tf32(DECOY)),
        {"naive": {"naive_attention": False}},
    ),
    Case(
        "language-save-and-evaluate-c",
        "language",
        "c",
        COMPOUND,
        ("frequent checkpoints", "frequent evaluation"),
        {"save_every": 4, "evaluate_every": 8, "log_every": 8, "threads": 1},
        (
            m.named("no-checkpoint", CEILING, m.wrap("torch.save", "no-checkpoint")),
            m.variant("saving"),
            m.variant("evaluation"),
            m.tf32(DECOY),
        ),
        {"saving": {"save_every": 0}, "evaluation": {"evaluate_every": 0}},
    ),
    Case(
        "language-anomaly-ema-c",
        "language",
        "c",
        COMPOUND,
        ("anomaly mode", "EMA loop"),
        {"anomaly": True, "ema": True, "wide": 64, "threads": 1},
        (m.no_anomaly(), m.variant("average"), m.variant("both"), m.fused("AdamW", WRONG)),
        {"average": {"ema": False}, "both": {"ema": False, "anomaly": False}},
    ),
    Case(
        "control-by-design-c",
        "control",
        "c",
        HEALTHY,
        (),
        {},
        (m.threads(1), m.tf32(DECOY), m.foreach("Adam", WRONG)),
    ),
    Case(
        "control-collecting-c",
        "control",
        "c",
        FAULT,
        ("explicit gc.collect()",),
        {"collect_every": 10},
        (m.skip_call("gc.collect", REMEDY), m.threads(1), m.fused("Adam", WRONG), m.tf32(DECOY)),
    ),
    Case(
        "control-anomaly-hooks-c",
        "control",
        "c",
        COMPOUND,
        ("anomaly mode", "module hooks"),
        {"anomaly": True, "hooks": True},
        (m.no_anomaly(), m.variant("hooks"), m.variant("both"), m.threads(1)),
        {"hooks": {"hooks": False}, "both": {"hooks": False, "anomaly": False}},
    ),
    Case(
        "control-garbage-c",
        "control",
        "c",
        DECOY,
        ("GC garbage generator",),
        {"garbage": 50},
        (m.variant("garbage"), m.threads(1), m.tf32(DECOY)),
        {"garbage": {"garbage": 0}},
    ),
    Case(
        "clicks-dense-gradients-c",
        "clicks",
        "c",
        FAULT,
        ("dense gradients",),
        {"sparse": False, "rows": 50_000},
        (m.variant("dense"), m.foreach("SGD", WRONG), m.workers(1, WRONG), m.pin_memory()),
        {"dense": {"sparse": True}},
    ),
    Case(
        "clicks-by-sample-c",
        "clicks",
        "c",
        COMPOUND,
        ("many small tensors", "no workers"),
        {"many_tensors": True, "whole_batches": False, "batch": 128},
        (m.variant("tensors"), m.workers_and_thread(2), m.workers(2, WRONG), m.variant("both")),
        {
            "tensors": {"many_tensors": False},
            "both": {"many_tensors": False, "whole_batches": True},
        },
    ),
    Case(
        "clicks-lean-c",
        "clicks",
        "c",
        HEALTHY,
        (),
        {},
        (m.foreach("SGD", WRONG), m.workers(1, WRONG), m.pin_memory()),
    ),
    Case(
        "segments-double-loss-c",
        "segments",
        "c",
        DECOY,
        ("fp64 leak",),
        {"double_loss": True, "fused": True, "threads": 1},
        (m.variant("double"), m.workers(1, WRONG), m.tf32(DECOY)),
        {"double": {"double_loss": False}},
    ),
    Case(
        "speech-padded-c",
        "speech",
        "c",
        FAULT,
        ("padding waste",),
        {"pad_to_most": True, "most": 600, "count": 256, "threads": 1},
        (m.variant("padding"), m.variant("lengths"), m.workers(1, WRONG), m.pin_memory()),
        {"padding": {"pad_to_most": False}, "lengths": {"pad_to_most": False, "buckets": True}},
    ),
    Case(
        "speech-slow-tail-c",
        "speech",
        "c",
        FAULT,
        ("heavy-tail samples",),
        {
            "workers": 2,
            "prefetch": 2,
            "tail_ms": 200.0,
            "buckets": True,
            "count": 256,
            "threads": 1,
        },
        (m.prefetch(8, REMEDY), m.workers(8), m.out_of_order(), m.pin_memory(), m.cached()),
    ),
    Case(
        "trainer-oversubscribed-c",
        "trainer",
        "c",
        FAULT,
        ("worker thread oversubscription",),
        {"workers": 4, "worker_threads": True, "features_ms": 0.2, "threads": 1},
        (
            m.named("worker-threads=1", REMEDY, m.wrap(m.LOADER, "worker-threads", threads=1)),
            m.variant("threads"),
            m.workers(2, WRONG),
            m.pin_memory(),
            m.cached(),
        ),
        {"threads": {"worker_threads": None}},
    ),
    Case(
        "trainer-clip-by-hand-c",
        "trainer",
        "c",
        DECOY,
        ("python clip", "logging each step"),
        {"naive_clip": True, "log_every": 1, "fused": True, "threads": 1},
        (m.variant("clip"), m.variant("log"), m.workers(1, WRONG), m.pin_memory()),
        {"clip": {"naive_clip": False}, "log": {"log_every": 20}},
    ),
    Case(
        "ranks-sync-each-time-c",
        "ranks",
        "c",
        FAULT,
        ("no no_sync with accumulation",),
        {"accumulate": 4},
        (
            m.no_sync(REMEDY),
            m.variant("syncs"),
            Choice("bucket-5", WRONG, (m.argument(m.DDP, "bucket_cap_mb", 5),)),
            m.pin_memory(),
        ),
        {"syncs": {"no_sync": True}},
        ranks=2,
        steps=300,
    ),
    Case(
        "ranks-slow-rank-c",
        "ranks",
        "c",
        FAULT,
        ("one slow rank",),
        {"slow_rank_ms": 8.0},
        (
            m.variant("delay"),
            Choice("bucket-5", WRONG, (m.argument(m.DDP, "bucket_cap_mb", 5),)),
            Choice("static-graph", WRONG, (m.argument(m.DDP, "static_graph", value=True),)),
            m.pin_memory(),
        ),
        {"delay": {"slow_rank_ms": 0.0}},
        ranks=2,
        steps=300,
    ),
)
_FED = {"workers": 8, "pin": True, "non_blocking": True}
_ON_GPU = (
    Case(
        "pictures-main-process-g",
        "pictures",
        "g",
        COMPOUND,
        ("no workers", "pageable"),
        {},
        (m.workers(16), m.workers(4, WRONG), m.pin_memory(), m.autocast(WRONG), m.cached()),
    ),
    Case(
        "pictures-tuned-g",
        "pictures",
        "g",
        HEALTHY,
        (),
        {
            **_FED,
            "in_memory": True,
            "batch": 128,
            "amp": True,
            "channels_last": True,
            "benchmark": True,
            "persistent": True,
        },
        (m.workers(16, WRONG), m.prefetcher(WRONG), m.tf32(DECOY), m.cached()),
    ),
    Case(
        "language-single-precision-g",
        "language",
        "g",
        FAULT,
        ("fp32 no TF32",),
        {"fused": True, "batch": 4},
        (m.tf32(REMEDY), m.autocast(REMEDY), m.not_fused("AdamW"), m.benchmark(DECOY)),
    ),
    Case(
        "language-tuned-g",
        "language",
        "g",
        HEALTHY,
        (".item() per step",),
        {"amp": True, "fused": True, "item_every_step": True, "compiled": True, "batch": 16},
        (m.variant("item"), m.tf32(WRONG), m.benchmark(DECOY)),
        {"item": {"item_every_step": False}},
    ),
    Case(
        "language-naive-checkpointed-g",
        "language",
        "g",
        COMPOUND,
        ("naive attention", "checkpointing with free memory"),
        {"amp": True, "naive_attention": True, "checkpointing": True},
        (
            m.named(
                "checkpointing-off",
                REMEDY,
                m.wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off"),
            ),
            m.variant("naive"),
            m.variant("both"),
            m.fused("AdamW", WRONG),
            m.benchmark(DECOY),
        ),
        {
            "naive": {"naive_attention": False},
            "both": {"naive_attention": False, "checkpointing": False},
        },
    ),
    Case(
        "control-launches-g",
        "control",
        "g",
        FAULT,
        ("launch-bound",),
        {"horizon": 24},
        (m.compiled(REMEDY), m.fused("Adam", WRONG), m.autocast(WRONG), m.tf32(DECOY)),
    ),
    Case(
        "control-waits-g",
        "control",
        "g",
        COMPOUND,
        (".item() per action", "synchronize() per step", "empty_cache per step"),
        {"horizon": 24, "item_every_action": True, "synchronize": True, "empty_cache": True},
        (
            m.skip_call("torch.cuda.empty_cache", REMEDY, "no-empty-cache"),
            m.skip_call("torch.cuda.synchronize", WRONG, "no-synchronize"),
            m.variant("items"),
            m.variant("all"),
            m.fused("Adam", WRONG),
        ),
        {
            "items": {"item_every_action": False},
            "all": {"item_every_action": False, "synchronize": False, "empty_cache": False},
        },
    ),
    Case(
        "clicks-pageable-g",
        "clicks",
        "g",
        FAULT,
        ("pageable",),
        {"history": 1000, "count": 100_000, "tf32": True},
        (
            m.prefetcher(REMEDY),
            m.pin_memory(REMEDY),
            m.workers(4, WRONG),
            m.foreach("SGD", WRONG),
            m.cached(),
        ),
    ),
    Case(
        "clicks-resident-g",
        "clicks",
        "g",
        HEALTHY,
        (),
        {"on_device": True, "tf32": True},
        (m.foreach("SGD", WRONG), m.autocast(WRONG), m.benchmark(DECOY)),
    ),
    Case(
        "segments-channels-first-g",
        "segments",
        "g",
        COMPOUND,
        ("NCHW under AMP", "benchmark off"),
        {"amp": True, "workers": 4, "pin": True},
        (
            m.channels_last(REMEDY),
            m.benchmark(WRONG),
            m.fused("AdamW", WRONG),
            m.workers(8, DECOY),
        ),
    ),
    Case(
        "segments-tuned-g",
        "segments",
        "g",
        HEALTHY,
        (),
        {**_FED, "amp": True, "channels_last": True, "benchmark": True, "fused": True},
        (m.workers(16, WRONG), m.prefetcher(WRONG), m.tf32(DECOY)),
    ),
    Case(
        "speech-padded-g",
        "speech",
        "g",
        COMPOUND,
        ("padding waste", "empty_cache per step"),
        {"pad_to_most": True, "empty_cache": True, "amp": True, "workers": 4},
        (
            m.variant("padding"),
            m.skip_call("torch.cuda.empty_cache", REMEDY, "no-empty-cache"),
            m.variant("both"),
            m.workers(8, WRONG),
            m.pin_memory(),
        ),
        {
            "padding": {"pad_to_most": False},
            "both": {"pad_to_most": False, "empty_cache": False, "buckets": True},
        },
    ),
    Case(
        "trainer-one-by-one-g",
        "trainer",
        "g",
        COMPOUND,
        ("foreach=False", "python clip"),
        {"foreach": False, "naive_clip": True, "amp": True, "workers": 8, "pin": True, "batch": 32},
        (
            m.fused("AdamW", REMEDY),
            m.foreach("AdamW", REMEDY),
            m.variant("clip"),
            m.workers(16, DECOY),
            m.benchmark(DECOY),
        ),
        {"clip": {"naive_clip": False}},
    ),
    Case(
        "trainer-tuned-g",
        "trainer",
        "g",
        HEALTHY,
        (),
        {"fused": True, "amp": True, "workers": 8, "pin": True, "compiled": True},
        (m.workers(16, WRONG), m.prefetcher(WRONG), m.tf32(DECOY)),
    ),
    Case(
        "ranks-sync-each-time-g",
        "ranks",
        "g",
        FAULT,
        ("no no_sync with accumulation",),
        {"accumulate": 4},
        (
            m.no_sync(REMEDY),
            m.variant("syncs"),
            m.tf32(WRONG),
            Choice("bucket-100", WRONG, (m.argument(m.DDP, "bucket_cap_mb", 100),)),
        ),
        {"syncs": {"no_sync": True}},
        ranks=2,
        steps=200,
    ),
)
CASES: dict[str, Case] = {case.name: case for case in (*_ON_CPU, *_ON_GPU)}
