"""The fixes, by subject; a test fails if one is not listed.

A fix has a file of its own; fixes that differ by a few words are rows of a table.
"""

from typing import Final

from gapless.catalogue.declare.fix import Fix
from gapless.catalogue.fixes.compute.allocator import allocator
from gapless.catalogue.fixes.compute.bf16 import bf16
from gapless.catalogue.fixes.compute.channels_last import channels_last
from gapless.catalogue.fixes.compute.checkpointing_off import checkpointing_off
from gapless.catalogue.fixes.compute.compile import compiled
from gapless.catalogue.fixes.compute.compile_reduce_overhead import compile_reduce_overhead
from gapless.catalogue.fixes.compute.cudnn_benchmark import cudnn_benchmark
from gapless.catalogue.fixes.compute.fp16 import fp16
from gapless.catalogue.fixes.compute.sdpa import sdpa
from gapless.catalogue.fixes.compute.tf32 import tf32
from gapless.catalogue.fixes.host.collector import collector
from gapless.catalogue.fixes.host.debug_off import debug_off
from gapless.catalogue.fixes.host.foreach import foreach
from gapless.catalogue.fixes.host.fused import fused
from gapless.catalogue.fixes.host.malloc import malloc
from gapless.catalogue.fixes.host.no_empty_cache import no_empty_cache
from gapless.catalogue.fixes.host.no_synchronize import no_synchronize
from gapless.catalogue.fixes.host.set_to_none import set_to_none
from gapless.catalogue.fixes.input.affinity import affinity
from gapless.catalogue.fixes.input.batch_size import batch_size
from gapless.catalogue.fixes.input.cached_batch import cached_batch, cached_batch_on_device
from gapless.catalogue.fixes.input.device_prefetcher import device_prefetcher
from gapless.catalogue.fixes.input.intra_op_threads import intra_op_threads
from gapless.catalogue.fixes.input.more_workers import more_workers
from gapless.catalogue.fixes.input.non_blocking import non_blocking
from gapless.catalogue.fixes.input.one_thread import one_thread
from gapless.catalogue.fixes.input.out_of_order import out_of_order
from gapless.catalogue.fixes.input.persistent_workers import persistent_workers
from gapless.catalogue.fixes.input.pin_memory import pin_memory
from gapless.catalogue.fixes.input.prefetch import prefetch
from gapless.catalogue.fixes.input.worker_threads import worker_threads
from gapless.catalogue.fixes.input.workers_and_one_thread import workers_and_one_thread
from gapless.catalogue.fixes.occasions.cadence import (
    checkpoint_every,
    evaluate_every,
    log_every,
    no_checkpoint,
    no_evaluation,
    no_logging,
)
from gapless.catalogue.fixes.ranks.ddp_arguments import DDP_ARGUMENTS
from gapless.catalogue.fixes.ranks.ddp_bf16 import ddp_bf16
from gapless.catalogue.fixes.ranks.nccl_backend import nccl_backend
from gapless.catalogue.fixes.ranks.no_sync import no_sync
from gapless.catalogue.fixes.samples.decode_by_dali import decode_by_dali
from gapless.catalogue.fixes.samples.decode_on_device import decode_on_device
from gapless.catalogue.fixes.samples.file_cache import file_cache
from gapless.catalogue.fixes.samples.jpeg_decoder import jpeg_decoder
from gapless.catalogue.fixes.samples.length_buckets import length_buckets
from gapless.catalogue.fixes.samples.packed_data import packed_data
from gapless.catalogue.fixes.samples.picture_cache import picture_cache
from gapless.catalogue.fixes.samples.read_ahead import read_ahead
from gapless.catalogue.fixes.samples.recycled_collate import recycled_collate
from gapless.catalogue.fixes.samples.reduced_decoding import reduced_decoding
from gapless.catalogue.fixes.samples.sample_cache import sample_cache
from gapless.catalogue.fixes.samples.uint8_by_hand import uint8_by_hand
from gapless.catalogue.fixes.samples.uint8_in_loop import uint8_in_loop
from gapless.catalogue.fixes.samples.uint8_to_device import uint8_to_device

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
    recycled_collate,
    uint8_to_device,
    uint8_by_hand,
    uint8_in_loop,
    decode_on_device,
    reduced_decoding,
    file_cache,
    jpeg_decoder,
    decode_by_dali,
    sample_cache,
    picture_cache,
    read_ahead,
    length_buckets,
    packed_data,
    worker_threads,
    affinity,
    one_thread,
    intra_op_threads,
    pin_memory,
    non_blocking,
    device_prefetcher,
    no_synchronize,
    no_empty_cache,
    malloc,
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
    *DDP_ARGUMENTS,
    ddp_bf16,
    nccl_backend,
    log_every,
    evaluate_every,
    checkpoint_every,
    batch_size,
)
