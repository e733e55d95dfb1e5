"""What ``gapless pack`` prints: what was written, and the line that reads it back."""

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from gapless.model.version import version
from gapless.report.text.numbers import size, span
from gapless.report.text.text import clean

if TYPE_CHECKING:
    from rich.text import Text

    from gapless.pack.packing import PackCost, PackOutcome, PackRequest
    from gapless.report.text.console import Pen

SCHEMA: Final = 1
_INDENT: Final = "  "


def cost_sentence(request: "PackRequest", cost: "PackCost") -> str:
    """Return what packing is going to take of the disk, and of time."""
    return (
        f"about {size(cost.bytes)} will be written to {request.target} as {request.format}: "
        f"{_plural(cost.samples, 'sample')} in {_plural(cost.n_shards, 'shard')}; to read them "
        f"takes about {span(cost.reading_s * 1e9)} at the speed of those looked at"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def packed_lines(request: "PackRequest", result: "PackOutcome", pen: "Pen") -> Iterator["Text"]:
    """Yield what was packed, then the change of the training."""
    from rich.text import Text

    from gapless.report.text.wrap import fold

    yield from fold(clean(_headline(result)), pen.width, style="bold")
    for sentence in _sentences(result):
        yield from fold(clean(sentence), pen.width)
    for note in result.notes:
        yield from fold(clean(f"note: {note}"), pen.width, style="bright_black")
    yield Text("")
    yield from fold(clean(f"read it back, {_describe_place(request, result)}:"), pen.width)
    for line in reading_lines(result):
        yield Text(f"{_INDENT}{line}", style="cyan")
    if request.source.kind == "images" or request.source.is_code:
        name = f"packed-data={shlex.quote(str(result.target))}"
        words = f"gapless try --fix {name} measures it, gapless fix writes it"
        yield from fold(clean(f"or, in a training that was recorded: {words}"), pen.width)


def reading_lines(result: "PackOutcome") -> tuple[str, str]:
    """Return the lines of Python that read a target."""
    has_images = result.manifest.kind == "images"
    transform_words = ", transform=transform" if has_images else ""
    return (
        "from gapless.parts import PackedDataset",
        f"dataset = PackedDataset({str(result.target)!r}{transform_words})",
    )


def _headline(result: "PackOutcome") -> str:
    manifest = result.manifest
    shards = _plural(len(manifest.shards), "shard")
    verb = "packed" if result.n_written or not manifest.shards else "compared"
    return (
        f"{verb} {_plural(manifest.samples, 'sample')} of {manifest.source}: "
        f"{size(manifest.bytes)} in {shards} of {manifest.format}, {result.took_s:.1f} s"
    )


def _sentences(result: "PackOutcome") -> Iterator[str]:
    if result.n_kept and result.n_written:
        n_shards = len(result.manifest.shards)
        yield f"{result.n_kept} of {n_shards} shards were there already, with the right checksums"
    if result.n_verified is not None:
        yield f"all {result.n_verified:,} samples were compared with the source: equal"


def _describe_place(request: "PackRequest", result: "PackOutcome") -> str:
    if request.source.kind == "images" and result.manifest.classes is None:
        return "as a data set of images without labels"
    if request.source.kind == "images":
        return f"in place of ImageFolder({request.source.path!r}, transform)"
    if request.source.is_code:
        return f"in place of {request.source.path.partition(':')[2]}"
    return "as a data set whose samples are dicts"


def packed_json(result: "PackOutcome") -> str:
    """Return what was packed as one JSON object."""
    manifest = result.manifest
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "gapless": version(),
        "packed": {
            "target": str(result.target),
            "format": manifest.format,
            "source": manifest.source,
            "samples": manifest.samples,
            "bytes": manifest.bytes,
            "shards": len(manifest.shards),
            "shards_kept": result.n_kept,
            "samples_verified": result.n_verified,
            "took_s": round(result.took_s, 3),
            "notes": result.notes,
            "read_with": "\n".join(reading_lines(result)),
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
