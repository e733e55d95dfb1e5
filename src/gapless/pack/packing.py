"""Pack a source into a target: survey, plan, write shards side by side, compare them."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import PackingError
from gapless.model.version import version
from gapless.pack import INDEXED_FORMATS
from gapless.pack.manifest import (
    FILE,
    VERSION,
    PackedFile,
    PackedShard,
    PackManifest,
    write_manifest,
)
from gapless.pack.plan import SourceSurvey, check_room, plan_shards
from gapless.pack.progress import SampleProgress
from gapless.pack.sources import SourceSpec
from gapless.pack.target import PackTarget, open_target
from gapless.pack.workers import DiskFullError, WorkerPool, WorkerTask
from gapless.report.text.numbers import size

Say = Callable[[str], None]
Announce = Callable[["PackCost"], None]
_MAX_NAMED: Final = 5  # samples that differ


class PackRequest(Struct, frozen=True):
    """What is to be packed, where to and how."""

    source: SourceSpec
    target: Path
    format: str
    python: str  # that reads the source
    n_workers: int
    shard_bytes: int | None = None
    verify: bool = False


class PackCost(Struct, frozen=True):
    """What is about to be written, and how long it is going to take, as far as samples show."""

    samples: int
    bytes: int  # about
    n_shards: int
    reading_s: float  # all samples, at the speed of those that were looked at


class PackOutcome(Struct, frozen=True):
    """What was packed."""

    manifest: PackManifest
    target: Path
    took_s: float
    n_written: int  # shards, in this call
    n_kept: int  # shards that were there, whole
    n_verified: int | None  # samples; None: they were not compared
    notes: list[str]


def pack(request: PackRequest, say: Say, announce: Announce) -> PackOutcome:
    """Pack a source, or go on with what was begun. Raises ``PackingError``.

    ``announce`` is told what it costs before anything is written, unless nothing is left to write.
    """
    began_s = time.monotonic()
    specification = {
        "source": msgspec.to_builtins(request.source),
        "format": request.format,
        "layout": None,
    }
    with open_target(request.target) as target:
        _refuse_packed(request, target.manifest)
        with WorkerPool(request.python, specification) as pool:
            say(f"looking at {request.source.path}")
            survey = msgspec.convert(pool.survey(), SourceSurvey)
            _refuse_changing(request, survey)
            packing = _Packing(request, target, pool, say, announce)
            manifest, n_kept = packing.begin(survey)
            manifest = packing.write(manifest, survey)
            n_verified = packing.verify(manifest) if request.verify else None
            if request.format in INDEXED_FORMATS:
                packing.write_index(manifest)
            if not manifest.complete:
                manifest = replace(manifest, complete=True)
                packing.save(manifest)
    n_written = len(manifest.shards) - n_kept
    took_s = time.monotonic() - began_s
    return PackOutcome(
        manifest, request.target, took_s, n_written, n_kept, n_verified, survey.notes
    )


def _refuse_packed(request: PackRequest, manifest: PackManifest | None) -> None:
    if manifest is None:
        return
    if manifest.complete and not request.verify:
        raise PackingError(
            f"{request.target} is packed already ({manifest.samples:,} samples of "
            f"{manifest.source}): nothing is overwritten; --verify compares it with the source"
        )
    if manifest.format != request.format:
        raise PackingError(
            f"{request.target} was begun as {manifest.format}: go on with --to {manifest.format}, "
            "or choose another target"
        )


def _refuse_changing(request: PackRequest, survey: SourceSurvey) -> None:
    if survey.changing:
        raise PackingError(
            f"sample {survey.changing[0]} of {request.source.path} is another each time it is "
            "made: packed, its random transforms would be frozen. Leave them out of the data set, "
            "and hand them to PackedDataset(…, transform=…)"
        )


class _Packing(Struct, frozen=True):
    """A source that is being packed."""

    request: PackRequest
    target: PackTarget
    pool: WorkerPool
    say: Say
    announce: Announce

    def begin(self, survey: SourceSurvey) -> tuple[PackManifest, int]:
        """Return what is to be written, and how many shards are there already, whole."""
        manifest = self.target.manifest
        if manifest is None:
            shards = plan_shards(survey, self.request.shard_bytes)
        elif manifest.fingerprint != survey.fingerprint:
            raise PackingError(
                f"{self.request.target} was packed from another source, or this one has changed "
                f"since: remove it, or choose another target (it names {manifest.source})"
            )
        else:
            shards = self._find_whole(manifest)
        missing = [shard for shard in shards if not shard.is_written]
        n_workers = min(self.request.n_workers, len(missing))
        n_bytes = check_room(self.request.target, survey, self.request.format, missing, n_workers)
        if missing:
            samples = sum(shard.samples for shard in missing)
            reading_s = samples * survey.sample_s / n_workers
            self.announce(PackCost(samples, n_bytes, len(missing), reading_s))
        manifest = PackManifest(
            VERSION,
            version(),
            self.request.format,
            survey.kind,
            self.request.source.path,
            survey.fingerprint,
            survey.samples,
            complete=not missing and manifest is not None and manifest.complete,
            classes=survey.classes,
            skeleton=survey.skeleton,
            shards=shards,
        )
        if not manifest.complete:
            self.save(manifest)
        return manifest, len(shards) - len(missing)

    def _find_whole(self, manifest: PackManifest) -> list[PackedShard]:
        """Return the shards of a manifest; those whose files are damaged are to be written again.

        Raises ``PackingError`` if they were all written once: then that is for the user to decide.
        """
        written = [shard for shard in manifest.shards if shard.is_written]
        tasks = [
            WorkerTask(number, "check", self._locate(shard)) for number, shard in enumerate(written)
        ]
        damaged = set[str]()
        progress = SampleProgress("checking shards", [shard.samples for shard in written], self.say)
        for event in self.pool.run(tasks, self.request.n_workers):
            progress.take(event)
            if event.result:
                damaged |= {written[event.task.number].name}
        if damaged and manifest.complete:
            raise PackingError(
                f"{self.request.target} is damaged: {', '.join(sorted(damaged))} is not what was "
                "written; remove the folder and pack it again"
            )
        return [
            replace(shard, files={}) if shard.name in damaged else shard
            for shard in manifest.shards
        ]

    def _locate(self, shard: PackedShard) -> dict[str, Any]:
        path = self.target.folder / shard.name
        files = {
            name.removeprefix(shard.name): msgspec.to_builtins(file)
            for name, file in shard.files.items()
        }
        return {"path": str(path), "files": files}

    def write(self, manifest: PackManifest, survey: SourceSurvey) -> PackManifest:
        """Write the shards that are missing. Raises ``PackingError``; what is whole then stays."""
        missing = [n for n, shard in enumerate(manifest.shards) if not shard.is_written]
        tasks = [
            WorkerTask(
                number,
                "write",
                {
                    "path": self.target.part_path(manifest.shards[number].name),
                    "first": manifest.shards[number].first,
                    "count": manifest.shards[number].samples,
                },
            )
            for number in missing
        ]
        progress = SampleProgress(
            f"packing {self.request.source.path}",
            {number: manifest.shards[number].samples for number in missing},
            self.say,
        )
        try:
            for event in self.pool.run(tasks, self.request.n_workers):
                progress.take(event)
                if event.result is not None:
                    manifest = self._keep(manifest, event.task.number, event.result["files"])
        except DiskFullError as error:
            raise PackingError(self._describe_full(manifest, survey, str(error))) from None
        return manifest

    def _keep(self, manifest: PackManifest, number: int, files: Mapping[str, Any]) -> PackManifest:
        """Keep a shard that is whole, and write that down."""
        shard = manifest.shards[number]
        self.target.keep_shard(shard.name, list(files))
        written = {
            shard.name + suffix: msgspec.convert(file, PackedFile) for suffix, file in files.items()
        }
        shards = list(manifest.shards)
        shards[number] = replace(shard, files=written)
        manifest = replace(manifest, shards=shards)
        self.save(manifest)
        return manifest

    def write_index(self, manifest: PackManifest) -> None:
        """Write what the library of the format finds shards by. Raises ``PackingError``."""
        shards = [
            {"file": name, "bytes": shard.files[name].bytes, "samples": shard.samples}
            for shard in manifest.shards
            for name in tuple(shard.files)[:1]  # the shard's own; its index and its names follow
        ]
        arguments = {
            "folder": str(self.target.folder),
            "shards": shards,
            "has_labels": manifest.kind == "images" and manifest.classes is not None,
        }
        for _ in self.pool.run([WorkerTask(0, "index", arguments)], 1):
            self.say("writing the index")

    def save(self, manifest: PackManifest) -> None:
        """Write the manifest. Raises ``PackingError`` if it cannot be."""
        try:
            write_manifest(self.target.folder, manifest)
        except OSError as error:
            raise PackingError(
                f"{self.target.folder / FILE} cannot be written: {error.strerror}; shards that it "
                "names are whole, and the same command goes on"
            ) from None

    def _describe_full(self, manifest: PackManifest, survey: SourceSurvey, words: str) -> str:
        n_written = sum(shard.is_written for shard in manifest.shards)
        count = sum(shard.samples for shard in manifest.shards if not shard.is_written)
        return (
            f"the disk of {self.request.target} takes no more ({words}): {n_written} of "
            f"{len(manifest.shards)} shards are whole and stay, the source is as it was. About "
            f"{size(count * survey.sample_bytes)} are still to be written: make room, and the same "
            "command goes on"
        )

    def verify(self, manifest: PackManifest) -> int:
        """Compare every sample with the source; return how many. Raises ``PackingError``."""
        tasks = [
            WorkerTask(
                number,
                "verify",
                {
                    "path": str(self.target.folder / shard.name),
                    "first": shard.first,
                    "count": shard.samples,
                },
            )
            for number, shard in enumerate(manifest.shards)
        ]
        progress = SampleProgress(
            "comparing with the source", [shard.samples for shard in manifest.shards], self.say
        )
        different, count = list[int](), 0
        for event in self.pool.run(tasks, self.request.n_workers):
            progress.take(event)
            if event.result is not None:
                different += event.result["different"]
                count += event.result["count"]
        if count:
            numbers = ", ".join(str(index) for index in sorted(different)[:_MAX_NAMED])
            raise PackingError(
                f"{count} of {manifest.samples:,} samples in {self.request.target} are not as in "
                f"{self.request.source.path} (sample {numbers}): the source is another than when "
                f"it was packed, or makes samples at random"
            )
        return manifest.samples
