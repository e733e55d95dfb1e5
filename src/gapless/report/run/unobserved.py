"""The report on what was not observed, and remarks on saving windows."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.report.text.text import clean

_SAVING: Final = "saving beside the training"  # of windows, as the recorder writes it


def saving_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe what was unusual when windows were saved: nothing was lost by it."""
    for unobserved in recorded.unobserved:
        if unobserved.what == _SAVING:
            yield f"{clean(unobserved.what)}: {clean(unobserved.why)}{_times(unobserved.count)}"


def _times(count: int) -> str:
    return f" ({count:,} times)" if count > 1 else ""


def unobserved_lines(study: Study, recorded: RecordedRun) -> Sequence[str]:
    """Describe what was not observed and why; what several processes lack is reported once."""
    counts: dict[tuple[str, str], int] = {}
    for unobserved in (
        unobserved for unobserved in recorded.unobserved if unobserved.what != _SAVING
    ):
        key = (clean(unobserved.what), clean(unobserved.why))
        counts[key] = counts.get(key, 0) + unobserved.count
    lines = [f"{subject}: {why}{_times(times)}" for (subject, why), times in counts.items()]
    lines += map(clean, recorded.notes)
    is_explained = any(line.startswith("window") for line in lines)
    if not (recorded.windows or recorded.adopted or is_explained) and study.run.ranks:
        lines.append("no window of torch.profiler")
    return lines
