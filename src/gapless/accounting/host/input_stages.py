"""Stages of loading that a trace shows by itself: what made the batch, while it was waited for.

Of traces whose reader knows the hand-overs of batches (``Trace.roles.inputs``): tf.data's iterators
and the operations in their functions, ranges of the user's within a range that loads.
"""

import re
from typing import Final

import numpy as np

from gapless.accounting.host.stages import NO_STAGES, Stages
from gapless.accounting.host.threads import Threads
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64

_MAX_WAITS: Final = 100_000  # more are a loop over samples, each of which is nothing
_PATTERNS: Final = {
    "decode": r"(^|[_: ])(image_?)?decod(e|ing)|^Decode|^Parse|decompress|deseriali[sz]e",
    "read": r"^Read(File|er)|Record|TextLine|FixedLength|SSTable|Interleave|file|(^|[_: ])read"
    r"|(^|[_: ])(open|download|fetch)([_: ]|$)",
    "tokenise": r"token|sentencepiece|wordpiece|bpe",
    "collate": r"Batch(V\d)?$|collat|(^|[_: ])(stack|pad)(ding)?([_: ]|$)|BatchConsume",
    "augment": r"Map|augment|transform|resize|crop|flip|normali[sz]e|PyFunc|py_func|preprocess"
    r"|(Cast|Mul|Sub|Add|AddV2|Reshape)$",
    "hand-over": r"Prefetch|ToDevice",
    "sampler": r"Shuffle|sampl",
    "other": r"^Iterator::(?!Root$|GetNext)",
}
_STAGES: Final = tuple(
    (LEAF[f"idle.data.{stage}"], re.compile(pattern, re.IGNORECASE))
    for stage, pattern in _PATTERNS.items()
)
_HOST: Final = (category.CPU_OP, category.OTHER_KIND, category.USER_ANNOTATION)


def find_input_stages(threads: Threads) -> Stages:
    """Return the stages within each wait for a batch, in whichever thread they ran."""
    trace = threads.trace
    if not trace.roles.inputs:
        return NO_STAGES
    events, inputs = trace.events, frozenset(trace.roles.inputs)
    is_input = np.array([name in inputs for name in trace.names], bool)[events.name]
    consumers = np.array([threads.main, *trace.roles.executors])
    waits = np.flatnonzero(
        is_input & np.isin(events.track, consumers) & (events.end > events.start)
    )
    if not 0 < len(waits) <= _MAX_WAITS:
        return NO_STAGES
    leaves = np.array([_find_leaf(name) for name in trace.names], np.int64)[events.name]
    rows = np.flatnonzero(
        (leaves >= 0) & ~is_input & np.isin(events.category, _HOST) & (events.end > events.start)
    )
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    return _stages_within(threads, waits, rows, leaves)


def _find_leaf(name: str) -> int:
    return next((leaf for leaf, pattern in _STAGES if pattern.search(name)), -1)


def _stages_within(threads: Threads, waits: Int64, rows: Int64, leaves: Int64) -> Stages:
    """Pair each wait with the stages that overlap it; what computes for the step is no stage."""
    events, roles = threads.trace.events, threads.trace.roles
    is_compute = (events.category[rows] == category.CPU_OP) & np.isin(
        events.track[rows], np.array(roles.executors, np.int64)
    )
    starts = events.start[rows]
    reach = np.maximum.accumulate(events.end[rows]) if len(rows) else starts
    parts: list[Int64] = []
    owners: list[Int64] = []
    for wait in waits.tolist():
        low = int(np.searchsorted(reach, events.start[wait], side="right"))
        high = int(np.searchsorted(starts, events.end[wait]))
        near = np.arange(low, high)
        is_own = events.track[rows[near]] == events.track[wait]
        near = near[(events.end[rows[near]] > events.start[wait]) & (is_own | ~is_compute[near])]
        parts.append(rows[near])
        owners.append(np.full(len(near), wait))
    stage, owner = np.concatenate(parts), np.concatenate(owners)
    if not len(stage):
        return NO_STAGES
    return Stages(
        wait=owner,
        start=events.start[stage],
        end=events.end[stage],
        leaf=leaves[stage],
        culprit=stage,
    )
