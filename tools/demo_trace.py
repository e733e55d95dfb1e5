"""Cut a capture of torch.profiler down to the small trace that the package ships.

Run ``python -m tools.demo_trace SOURCE.json.gz [TARGET.json.gz]``. The events that stay are the
bytes that torch.profiler wrote; what goes is listed in ``src/gapless/demo/README.md``.
"""

import argparse
import gzip
import json
import re
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "src/gapless/demo/resnet50.json.gz"
_OPENING: Final = b'"traceEvents": ['
_CLOSING: Final = b"\n  ],\n"
_BETWEEN: Final = re.compile(rb",(?=\n  \{\n)")
_FLOWS: Final = ("s", "f")

Event = dict[str, Any]  # JSON as it comes: this script knows three of its keys


def cut(source: bytes) -> bytes:
    """Give the capture without flow arrows, operators inside the data loader and its own path."""
    start = source.index(_OPENING) + len(_OPENING)
    end = source.rindex(_CLOSING)
    texts = _BETWEEN.split(source[start:end])
    events: list[Event] = [json.loads(text) for text in texts]
    waits = [_span(event) for event in events if event["name"].startswith("enumerate(DataLoader)#")]
    kept = [text for text, event in zip(texts, events, strict=True) if not _left_out(event, waits)]
    return source[:start] + b",".join(kept) + b"\n  ]\n}\n"


def _left_out(event: Event, waits: list[tuple[object, float, float]]) -> bool:
    if event["ph"] in _FLOWS:
        return True
    if event.get("cat") != "cpu_op":
        return False
    track, start, end = _span(event)
    return any(track == on and since < start and end < until for on, since, until in waits)


def _span(event: Event) -> tuple[object, float, float]:
    return event["tid"], event["ts"], event["ts"] + event["dur"]


def main() -> None:
    """Read the source, write the target, say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?", default=TARGET)
    args = parser.parse_args()
    small = cut(gzip.decompress(args.source.read_bytes()))
    args.target.write_bytes(gzip.compress(small, compresslevel=9, mtime=0))
    print(f"{args.target}: {args.target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
