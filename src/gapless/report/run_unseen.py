"""What a report says that was not observed, and what of the windows is merely worth a remark."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.run import Recorded
from gapless.model.study import Study
from gapless.report.text import clean

_SAVING: Final = "saving beside the training"  # of windows, as the recorder writes it


def saving_lines(recorded: Recorded) -> Iterator[str]:
    """Say what went otherwise than usual when windows were saved: nothing was lost by it."""
    for one in recorded.unseen:
        if one.what == _SAVING:
            yield f"{clean(one.what)}: {clean(one.why)}{_times(one.count)}"


def _times(count: int) -> str:
    return f" ({count:,} times)" if count > 1 else ""


def unseen_lines(study: Study, recorded: Recorded) -> Sequence[str]:
    """Say what was not observed and why; what several processes lack alike is said once."""
    seen: dict[tuple[str, str], int] = {}
    for one in (one for one in recorded.unseen if one.what != _SAVING):
        key = (clean(one.what), clean(one.why))
        seen[key] = seen.get(key, 0) + one.count
    lines = [f"{what}: {why}{_times(times)}" for (what, why), times in seen.items()]
    lines += map(clean, recorded.notes)
    explained = any(line.startswith("window") for line in lines)
    if not (recorded.windows or recorded.adopted or explained) and study.run.ranks:
        lines.append("no window of torch.profiler")
    return lines
