"""What a process of a trial's arm observed of itself: losses, and what it trained on."""

from gapless.model.recording import Drawn, Observed, Seen
from gapless.store.fields import Object, integer, items, members, text, texts


def observed(found: Object) -> Observed:
    """Give what a TRIAL frame tells; what is not understood of it is left out."""
    return Observed(
        losses=tuple(
            value for one in texts(found.get("losses")) if (value := _loss(one)) is not None
        ),
        scaled=found.get("scaled") is True,
        indices={
            int(loader): tuple(one for each in items(some) if (one := _drawn(each)) is not None)
            for loader, some in members(found.get("indices")).items()
            if loader.isdecimal()
        },
        samples={
            int(loader): tuple(one for each in items(some) if (one := _seen(each)) is not None)
            for loader, some in members(found.get("samples")).items()
            if loader.isdecimal()
        },
        stopped=integer(found.get("stopped")),
    )


def _loss(value: str) -> float | None:
    try:
        return float.fromhex(value)
    except (ValueError, OverflowError):
        return None


def _drawn(found: object) -> Drawn | None:
    epoch, checksum, count, distinct = (*items(found), None, None, None, None)[:4]
    number, many, sign = integer(epoch), integer(count), text(checksum)
    if number is None or many is None or sign is None:
        return None
    return Drawn(number, sign, many, integer(distinct))


def _seen(found: object) -> Seen | None:
    epoch, samples = (*items(found), None, None)[:2]
    number = integer(epoch)
    return None if number is None else Seen(number, texts(samples))
