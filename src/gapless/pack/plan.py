"""What a target will hold: which samples in which shard, how large, and whether there is room."""

import os
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gapless.errors import PackingError
from gapless.pack.manifest import PackedShard
from gapless.report.text.numbers import size

_SHARDS_OF_SMALL: Final = 8  # of what is smaller than so many usual shards
_MIN_SHARD_BYTES: Final = 8 << 20
_USUAL_SHARD_BYTES: Final = 256 << 20
_USUAL_SHARDS: Final = 256  # a process reads from as many at a time without opening files anew
_MAX_SHARD_BYTES: Final = 1 << 30
_INDEX_BYTES: Final = 24 + 60  # of a sample: its row, its name
_TAR_BLOCK: Final = 512
_PAGE: Final = 4096  # of LMDB
_LARGE_VALUE: Final = 2000  # bytes, from which LMDB gives a value pages of its own
_SPARE_SHARE: Final = 0.02


class SourceSurvey(Struct, frozen=True):
    """What a worker found in a source."""

    samples: int
    kind: str
    classes: list[str] | None
    skeleton: Any
    layout: Any  # what other workers need not look for again
    notes: list[str]
    fingerprint: str
    sample_bytes: float  # on average
    sample_s: float  # to make one, of those that were looked at
    changing: list[int]  # samples that were others when they were made again


def plan_shards(survey: SourceSurvey, shard_bytes: int | None) -> list[PackedShard]:
    """Return the shards of a source, all of about one size; ``None``: as many as are usual."""
    if shard_bytes is None:
        total = survey.samples * survey.sample_bytes
        usual = min(max(total / _SHARDS_OF_SMALL, _MIN_SHARD_BYTES), _USUAL_SHARD_BYTES)
        shard_bytes = int(min(max(total / _USUAL_SHARDS, usual), _MAX_SHARD_BYTES))
    max_samples = max(1, round(shard_bytes / max(1.0, survey.sample_bytes)))
    return [
        PackedShard(f"shard-{number:05d}", first, min(max_samples, survey.samples - first))
        for number, first in enumerate(range(0, survey.samples, max_samples))
    ]


def estimate_sample_bytes(survey: SourceSurvey, kind: str) -> float:
    """Return about how many bytes of disk a sample takes in a format, its index included."""
    n_bytes = survey.sample_bytes
    if kind == "tar":
        members = 2 if survey.kind == "images" and survey.classes else 1
        n_bytes += members * (_TAR_BLOCK + _TAR_BLOCK / 2)
    elif kind == "lmdb":
        n_bytes += _PAGE / 2 + 16 if n_bytes > _LARGE_VALUE else 0.1 * n_bytes + 32
    return n_bytes + _INDEX_BYTES


def check_room(
    folder: Path, survey: SourceSurvey, kind: str, shards: list[PackedShard], n_workers: int
) -> int:
    """Return about how many bytes the shards will take. Raises ``PackingError``: no room.

    HDF5 files are written from a file beside them: as many as there are workers at a time.
    """
    n_samples = sum(shard.samples for shard in shards)
    needed = n_samples * estimate_sample_bytes(survey, kind) * (1 + _SPARE_SHARE)
    if kind == "hdf5" and shards:
        needed += n_workers * max(shard.samples for shard in shards) * survey.sample_bytes
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if needed > free:
        raise PackingError(
            f"about {size(needed)} would be written, and {size(free)} are free where "
            f"{folder} is: make room, or choose a target on another disk"
        )
    return int(needed)
