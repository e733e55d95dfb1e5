"""What a process of a trial's arm observed about itself: losses, and what it trained on."""

from gapless.model.recording import ArmObservation, BatchIndices, BatchSamples
from gapless.store.logs.fields import Object, integer, items, members, text, texts


def parse_observation(document: Object) -> ArmObservation:
    """Return what a TRIAL frame holds; what is not understood is left out."""
    return ArmObservation(
        losses=tuple(
            value
            for loss_text in texts(document.get("losses"))
            if (value := _loss(loss_text)) is not None
        ),
        scaled=document.get("scaled") is True,
        indices={
            int(loader): tuple(
                indices
                for batch in items(batches)
                if (indices := _parse_indices(batch)) is not None
            )
            for loader, batches in members(document.get("indices")).items()
            if loader.isdecimal()
        },
        samples={
            int(loader): tuple(
                indices
                for batch in items(batches)
                if (indices := _parse_samples(batch)) is not None
            )
            for loader, batches in members(document.get("samples")).items()
            if loader.isdecimal()
        },
        stopped=integer(document.get("stopped")),
    )


def _loss(value: str) -> float | None:
    try:
        return float.fromhex(value)
    except (ValueError, OverflowError):
        return None


def _parse_indices(batch: object) -> BatchIndices | None:
    epoch, checksum, count, distinct = (*items(batch), None, None, None, None)[:4]
    number, n_indices, digest = integer(epoch), integer(count), text(checksum)
    if number is None or n_indices is None or digest is None:
        return None
    return BatchIndices(number, digest, n_indices, integer(distinct))


def _parse_samples(batch: object) -> BatchSamples | None:
    epoch, samples = (*items(batch), None, None)[:2]
    number = integer(epoch)
    return None if number is None else BatchSamples(number, texts(samples))
