"""The fixes, by what they are about. One file each; a test fails if one is not listed."""

from typing import Final

from gapless.catalogue.declare import Fix
from gapless.catalogue.fixes.affinity import affinity
from gapless.catalogue.fixes.allocator import allocator
from gapless.catalogue.fixes.batch_size import batch_size
from gapless.catalogue.fixes.bf16 import bf16
from gapless.catalogue.fixes.cached_batch import cached_batch
from gapless.catalogue.fixes.cached_batch_on_device import cached_batch_on_device
from gapless.catalogue.fixes.channels_last import channels_last
from gapless.catalogue.fixes.checkpoint_every import checkpoint_every
from gapless.catalogue.fixes.checkpointing_off import checkpointing_off
from gapless.catalogue.fixes.collector import collector
from gapless.catalogue.fixes.compile import compiled
from gapless.catalogue.fixes.compile_reduce_overhead import compile_reduce_overhead
from gapless.catalogue.fixes.cudnn_benchmark import cudnn_benchmark
from gapless.catalogue.fixes.ddp_bucket_view import ddp_bucket_view
from gapless.catalogue.fixes.ddp_buckets import ddp_buckets
from gapless.catalogue.fixes.ddp_no_unused import ddp_no_unused
from gapless.catalogue.fixes.ddp_static_graph import ddp_static_graph
from gapless.catalogue.fixes.debug_off import debug_off
from gapless.catalogue.fixes.device_prefetcher import device_prefetcher
from gapless.catalogue.fixes.evaluate_every import evaluate_every
from gapless.catalogue.fixes.foreach import foreach
from gapless.catalogue.fixes.fp16 import fp16
from gapless.catalogue.fixes.fused import fused
from gapless.catalogue.fixes.intra_op_threads import intra_op_threads
from gapless.catalogue.fixes.log_every import log_every
from gapless.catalogue.fixes.more_workers import more_workers
from gapless.catalogue.fixes.no_checkpoint import no_checkpoint
from gapless.catalogue.fixes.no_empty_cache import no_empty_cache
from gapless.catalogue.fixes.no_evaluation import no_evaluation
from gapless.catalogue.fixes.no_logging import no_logging
from gapless.catalogue.fixes.no_sync import no_sync
from gapless.catalogue.fixes.no_synchronize import no_synchronize
from gapless.catalogue.fixes.non_blocking import non_blocking
from gapless.catalogue.fixes.one_thread import one_thread
from gapless.catalogue.fixes.out_of_order import out_of_order
from gapless.catalogue.fixes.persistent_workers import persistent_workers
from gapless.catalogue.fixes.pin_memory import pin_memory
from gapless.catalogue.fixes.prefetch import prefetch
from gapless.catalogue.fixes.sdpa import sdpa
from gapless.catalogue.fixes.set_to_none import set_to_none
from gapless.catalogue.fixes.tf32 import tf32
from gapless.catalogue.fixes.worker_threads import worker_threads
from gapless.catalogue.fixes.workers_and_one_thread import workers_and_one_thread

FIXES: Final[tuple[Fix, ...]] = (
    cached_batch,
    cached_batch_on_device,
    no_logging,
    no_checkpoint,
    no_evaluation,
    more_workers,
    workers_and_one_thread,
    prefetch,
    persistent_workers,
    out_of_order,
    worker_threads,
    affinity,
    one_thread,
    intra_op_threads,
    pin_memory,
    non_blocking,
    device_prefetcher,
    no_synchronize,
    no_empty_cache,
    collector,
    debug_off,
    compiled,
    compile_reduce_overhead,
    foreach,
    fused,
    set_to_none,
    tf32,
    bf16,
    fp16,
    channels_last,
    cudnn_benchmark,
    sdpa,
    allocator,
    checkpointing_off,
    no_sync,
    ddp_buckets,
    ddp_static_graph,
    ddp_bucket_view,
    ddp_no_unused,
    log_every,
    evaluate_every,
    checkpoint_every,
    batch_size,
)
