"""The rules, in order of their codes; a test fails if one is not listed.

A rule has a file of its own; rules that differ by a few words are rows of a table.
"""

from typing import Final

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.rules.compute.cast_traffic import cast_traffic
from gapless.catalogue.rules.compute.channels_first import channels_first
from gapless.catalogue.rules.compute.deterministic_algorithms import deterministic_algorithms
from gapless.catalogue.rules.compute.double_precision import double_precision
from gapless.catalogue.rules.compute.emulated_half import emulated_half
from gapless.catalogue.rules.compute.full_precision import full_precision
from gapless.catalogue.rules.compute.library_off import library_off
from gapless.catalogue.rules.compute.misaligned_products import misaligned_products
from gapless.catalogue.rules.compute.single_precision import single_precision
from gapless.catalogue.rules.compute.too_few_threads import too_few_threads
from gapless.catalogue.rules.compute.too_many_threads import too_many_threads
from gapless.catalogue.rules.compute.unfused_attention import unfused_attention
from gapless.catalogue.rules.compute.unfused_elementwise import unfused_elementwise
from gapless.catalogue.rules.compute.untried_convolutions import untried_convolutions
from gapless.catalogue.rules.copies.blocking_copy import blocking_copy
from gapless.catalogue.rules.copies.blocking_launches import blocking_launches
from gapless.catalogue.rules.copies.chores_in_step import chores_in_step
from gapless.catalogue.rules.copies.data_dependent_shape import data_dependent_shape
from gapless.catalogue.rules.copies.explicit_synchronize import explicit_synchronize
from gapless.catalogue.rules.copies.exposed_copy import exposed_copy
from gapless.catalogue.rules.copies.pageable_copy import pageable_copy
from gapless.catalogue.rules.copies.read_back import read_back
from gapless.catalogue.rules.copies.scalar_read import scalar_read
from gapless.catalogue.rules.copies.scaler_wait import scaler_wait
from gapless.catalogue.rules.copies.small_copies import small_copies
from gapless.catalogue.rules.host.anomaly_mode import anomaly_mode
from gapless.catalogue.rules.host.average_loop import average_loop
from gapless.catalogue.rules.host.clip_loop import clip_loop
from gapless.catalogue.rules.host.collecting_garbage import collecting_garbage
from gapless.catalogue.rules.host.costly_line import costly_line
from gapless.catalogue.rules.host.files_in_step import files_in_step
from gapless.catalogue.rules.host.held_interpreter import held_interpreter
from gapless.catalogue.rules.host.launch_bound import launch_bound
from gapless.catalogue.rules.host.optimizer_by_hand import optimizer_by_hand
from gapless.catalogue.rules.host.optimizer_loop import optimizer_loop
from gapless.catalogue.rules.host.preprocessing_in_step import preprocessing_in_step
from gapless.catalogue.rules.host.profiler_left_on import profiler_left_on
from gapless.catalogue.rules.host.python_bound import python_bound
from gapless.catalogue.rules.host.recompiling_in_step import recompiling_in_step
from gapless.catalogue.rules.host.unfused_optimizer import unfused_optimizer
from gapless.catalogue.rules.host.zeroed_gradients import zeroed_gradients
from gapless.catalogue.rules.input.hand_over_bound import hand_over_bound
from gapless.catalogue.rules.input.loader_in_training_process import loader_in_training_process
from gapless.catalogue.rules.input.needless_workers import needless_workers
from gapless.catalogue.rules.input.oversubscribed_processors import oversubscribed_processors
from gapless.catalogue.rules.input.read_bound import read_bound
from gapless.catalogue.rules.input.restarted_workers import restarted_workers
from gapless.catalogue.rules.input.sampler_bound import sampler_bound
from gapless.catalogue.rules.input.shallow_prefetch import shallow_prefetch
from gapless.catalogue.rules.input.slow_samples import slow_samples
from gapless.catalogue.rules.input.slow_stages import SLOW_STAGES
from gapless.catalogue.rules.input.too_few_workers import too_few_workers
from gapless.catalogue.rules.input.wait_bound import wait_bound
from gapless.catalogue.rules.machine.shared_device import shared_device
from gapless.catalogue.rules.machine.taken_processors import taken_processors
from gapless.catalogue.rules.machine.throttled_device import throttled_device
from gapless.catalogue.rules.machine.unused_device import unused_device
from gapless.catalogue.rules.memory.allocating_in_step import allocating_in_step
from gapless.catalogue.rules.memory.dense_gradients import dense_gradients
from gapless.catalogue.rules.memory.emptied_cache import emptied_cache
from gapless.catalogue.rules.memory.growing_tensor import growing_tensor
from gapless.catalogue.rules.memory.recomputed_activations import recomputed_activations
from gapless.catalogue.rules.memory.returned_memory import returned_memory
from gapless.catalogue.rules.memory.short_of_memory import short_of_memory
from gapless.catalogue.rules.needless.decomposition_in_step import decomposition_in_step
from gapless.catalogue.rules.needless.distribution_checks import distribution_checks
from gapless.catalogue.rules.needless.model_in_pieces import model_in_pieces
from gapless.catalogue.rules.needless.needless_gradients import needless_gradients
from gapless.catalogue.rules.needless.one_hot_product import one_hot_product
from gapless.catalogue.rules.needless.padded_batches import padded_batches
from gapless.catalogue.rules.needless.repeated_forward import repeated_forward
from gapless.catalogue.rules.needless.unused_forward import unused_forward
from gapless.catalogue.rules.needless.unused_outputs import unused_outputs
from gapless.catalogue.rules.occasions.blocking_calls import (
    checkpoint_in_the_way,
    logging_in_the_way,
)
from gapless.catalogue.rules.occasions.evaluation_in_the_way import evaluation_in_the_way
from gapless.catalogue.rules.occasions.evaluation_with_autograd import evaluation_with_autograd
from gapless.catalogue.rules.occasions.occasional_work import occasional_work
from gapless.catalogue.rules.ranks.copied_buckets import copied_buckets
from gapless.catalogue.rules.ranks.large_buckets import large_buckets
from gapless.catalogue.rules.ranks.meeting_in_step import meeting_in_step
from gapless.catalogue.rules.ranks.needless_reductions import needless_reductions
from gapless.catalogue.rules.ranks.one_process_for_gpus import one_process_for_gpus
from gapless.catalogue.rules.ranks.searched_parameters import searched_parameters
from gapless.catalogue.rules.ranks.slow_backend import slow_backend
from gapless.catalogue.rules.ranks.slow_link import slow_link
from gapless.catalogue.rules.ranks.small_buckets import small_buckets
from gapless.catalogue.rules.ranks.straggling_rank import straggling_rank
from gapless.catalogue.rules.ranks.synced_statistics import synced_statistics
from gapless.catalogue.rules.ranks.uneven_batches import uneven_batches
from gapless.catalogue.rules.ranks.unhidden_collectives import unhidden_collectives

_LISTED: Final[tuple[Rule, ...]] = (
    loader_in_training_process,
    too_few_workers,
    oversubscribed_processors,
    shallow_prefetch,
    restarted_workers,
    read_bound,
    hand_over_bound,
    slow_samples,
    too_many_threads,
    sampler_bound,
    needless_workers,
    too_few_threads,
    wait_bound,
    launch_bound,
    python_bound,
    preprocessing_in_step,
    optimizer_loop,
    unfused_optimizer,
    clip_loop,
    average_loop,
    collecting_garbage,
    anomaly_mode,
    blocking_launches,
    deterministic_algorithms,
    profiler_left_on,
    zeroed_gradients,
    chores_in_step,
    files_in_step,
    optimizer_by_hand,
    model_in_pieces,
    costly_line,
    held_interpreter,
    distribution_checks,
    recompiling_in_step,
    pageable_copy,
    blocking_copy,
    exposed_copy,
    small_copies,
    scalar_read,
    explicit_synchronize,
    data_dependent_shape,
    read_back,
    scaler_wait,
    emptied_cache,
    returned_memory,
    short_of_memory,
    allocating_in_step,
    recomputed_activations,
    single_precision,
    full_precision,
    double_precision,
    channels_first,
    unfused_attention,
    unfused_elementwise,
    untried_convolutions,
    cast_traffic,
    misaligned_products,
    padded_batches,
    dense_gradients,
    emulated_half,
    needless_gradients,
    unused_outputs,
    growing_tensor,
    decomposition_in_step,
    unused_forward,
    library_off,
    one_hot_product,
    repeated_forward,
    straggling_rank,
    needless_reductions,
    unhidden_collectives,
    small_buckets,
    searched_parameters,
    synced_statistics,
    meeting_in_step,
    copied_buckets,
    slow_backend,
    one_process_for_gpus,
    uneven_batches,
    slow_link,
    large_buckets,
    checkpoint_in_the_way,
    logging_in_the_way,
    evaluation_in_the_way,
    evaluation_with_autograd,
    occasional_work,
    throttled_device,
    shared_device,
    unused_device,
    taken_processors,
    *SLOW_STAGES,
)
RULES: Final = tuple(sorted(_LISTED, key=lambda rule: rule.code))
