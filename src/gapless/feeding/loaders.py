"""The loader of a training, and in its absence what there was instead."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.facts import Facts, Loader
from gapless.recorded.facts import facts
from gapless.verify import in_place

_MAX_NAMED: Final = 3
_HELP: Final = "gapless data measures torch's DataLoader, and what subclasses or stands for it"


def find_training_loader(loaders: Sequence[Loader]) -> Loader | None:
    """Return the loader that feeds the training with most batches; ``None``: none does."""
    feeding = [loader for loader in loaders if loader.trains and loader.stands_in is None]
    return max(feeding, key=_count_batches, default=None)


def _count_batches(loader: Loader) -> int:
    return loader.batches


def describe_lack(record: in_place.TakeoverRecord) -> str:
    """Say in plain words why no loader was measured, and what was seen of the command."""
    ending = "it ended, and no loader of its training was gone through"
    why = in_place.describe_failure(record) or ending
    parts = [f"no DataLoader was measured: {why}", *_describe_seen(record)]
    printed = [line for line in in_place.last_lines(record.output) if why not in line]
    if printed:
        parts.append(f"it printed last: {' / '.join(printed)}")
    return "; ".join(parts)


def _describe_seen(record: in_place.TakeoverRecord) -> Iterator[str]:
    if record.recording is None:
        return
    run_facts: Facts = facts(record.recording)
    stand_ins = [loader for loader in run_facts.loaders if loader.stands_in is not None]
    for loader in stand_ins[:_MAX_NAMED]:
        at_line = "" if loader.location is None else f" at {_line_ref(loader)}"
        yield f"batches come from {loader.stands_in}{at_line}, which is no DataLoader ({_HELP})"
    plain_loaders = [loader for loader in run_facts.loaders if loader.stands_in is None]
    if plain_loaders:
        lines = ", ".join(
            _line_ref(loader) for loader in plain_loaders[:_MAX_NAMED] if loader.location
        )
        yield f"loaders were made{f' at {lines}' if lines else ''}, and not gone through to train"


def _line_ref(loader: Loader) -> str:
    location = loader.location
    return "an unknown line" if location is None else f"{location.file}:{location.line}"
