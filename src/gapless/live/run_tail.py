"""A run that is being recorded: its latest records, as a recording of their own."""

import time
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless.live.log_tail import LogTail
from gapless.model.recording import Manifest, Process, Recording
from gapless.store.logs.logs import read_processes
from gapless.store.logs.series import read_samples
from gapless.store.run import manifest, recovery
from gapless.store.run.liveness import goes_on
from gapless.store.run.manifest import KILLED, RUNNING, ManifestDocument
from gapless.store.run.recordings import is_run

GONE: Final = "gone"  # the status of a run whose folder disappeared
HORIZON_NS: Final = 30 * 10**9  # what counts as now
_MIN_RECORDS: Final = 16  # frames of a training that are looked at, however old: long steps
_SAMPLES: Final = "samples"
_WORKER: Final = "-worker"


class RunNow(Struct, frozen=True):
    """A run at one moment."""

    document: ManifestDocument
    status: str  # as ``Manifest.status``, or GONE
    recording: Recording  # its latest records
    newest_ns: int | None  # when the last of them ended


class RunTail(Struct):
    """A run folder that is followed."""

    folder: Path
    _logs: dict[str, LogTail] = field(default_factory=dict[str, LogTail])
    _document: ManifestDocument | None = None

    def follow(self) -> RunNow:
        """Read what is new. Raises ``RunFolderError`` if a later version wrote it."""
        status = self._read_manifest()
        document = self._document or manifest.peek(self.folder)
        if status != GONE:
            self._follow_logs(document)
        newest_ns = max(
            (log.newest_ns for log in self._logs.values() if log.newest_ns is not None),
            default=None,
        )
        return RunNow(document, status, self._recent_recording(document.manifest), newest_ns)

    def _read_manifest(self) -> str:
        if not is_run(self.folder):
            return GONE
        document = manifest.read(self.folder)
        if not document.is_readable and self._document is not None:
            document = self._document  # somebody removed it; the launcher still writes the logs
        self._document = document
        if document.manifest.status == RUNNING and not goes_on(document, self.folder):
            return KILLED
        return document.manifest.status

    def _follow_logs(self, document: ManifestDocument) -> None:
        for path in recovery.find_logs(self.folder, document.spool):
            log = self._logs.setdefault(path.name, LogTail(path.name))
            try:
                log.follow(path)
            except OSError:  # it was carried into the run folder meanwhile
                continue
        newest_ns = max((log.newest_ns or 0 for log in self._logs.values()), default=0)
        for name, log in self._logs.items():
            is_training = not name.startswith(_SAMPLES) and _WORKER not in name
            log.forget_before(newest_ns - HORIZON_NS, _MIN_RECORDS if is_training else 1)

    def _recent_recording(self, run_manifest: Manifest) -> Recording:
        run_processes: list[Process] = []
        sampler_logs = [
            log.make_log() for name, log in self._logs.items() if name.startswith(_SAMPLES)
        ]
        for name, log in sorted(self._logs.items()):
            if not name.startswith(_SAMPLES):
                run_processes += read_processes(name, log.make_log())[0]
        return Recording(
            path=str(self.folder),
            manifest=run_manifest,
            processes=tuple(run_processes),
            samples=read_samples(sampler_logs),
            unobserved=(),
        )


def elapsed_ns(run_manifest: Manifest) -> int | None:
    """Return how long a run lasted, or lasts until now; ``None`` if it is not known."""
    if run_manifest.ended is not None:
        return run_manifest.ended - run_manifest.started
    if not run_manifest.started_unix_ns:
        return None
    return max(0, time.time_ns() - run_manifest.started_unix_ns)
