"""Mutate real traces, open each, and count what comes of it: a sound report, or a clear refusal.

``python -m benchmarks.mutations --count 20000 --seed 1`` prints the counts as JSON; anything but a
consistent trace or a ``GaplessError`` ends it with the seed of the culprit.
"""

import argparse
import gzip
import io
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import machine
from gapless.accounting import join_trace, partition
from gapless.capture.assemble import assemble_study
from gapless.capture.summarize import summarise_capture
from gapless.errors import GaplessError
from gapless.formats import read
from gapless.model import category as c
from gapless.model.options import Options
from gapless.model.trace import Trace
from gapless.report.documents.document import study_json
from gapless.report.terminal import TableView, study_screen
from gapless.report.text.console import pen_for

DATA = Path(__file__).parents[1] / "tests" / "data"
_RUN = 60_000  # bytes of events in a row that a specimen keeps
_TOKENS = (
    *(
        b'"',
        b"\\",
        b"\n",
        b"\x00",
        b"\xff\xfe",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"},{",
        b'"},{"',
    ),
    *(b"NaN", b"inf", b"-Infinity", b"N/A", b"null", b"true", b"-1", b"1e999", b"0.-5", b"9" * 40),
    *(b'"\\ud800"', b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"ph": "X",', b'"ts": "12",'),
    *(b'"traceEvents": [', b"]}", b"}]", b'"args": {'),
)

Mutate = Callable[[bytearray, random.Random], None]


def load_specimens(folder: Path = DATA) -> list[bytes]:
    """Return pieces of the real traces in a folder, small enough to be read in milliseconds.

    Each has the file's own beginning and end, some events from its start and some from its end.
    """
    return [
        _cut_specimen(gzip.decompress(path.read_bytes()))
        for path in sorted(folder.rglob("*.json.gz"))
    ]


def _cut_specimen(text: bytes) -> bytes:
    opening = re.search(rb'"traceEvents": \[\s*', text)
    starts = [match.start() for match in re.finditer(rb'\{\s*"(?:ph|name)":', text)]
    if opening is None or len(text) < 2 * _RUN:
        return text
    head_end = next(start for start in starts if start > opening.end() + _RUN)
    tail_start = next(start for start in starts if start > len(text) - _RUN)
    return text[:head_end] + text[tail_start:]


def mutate(text: bytes, rng: random.Random) -> bytes:
    """Return the text with one to six random changes; some compressed, and changed after."""
    data = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(_MUTATIONS)(data, rng)
    if rng.random() < 0.2:  # noqa: PLR2004  one in five
        data = bytearray(gzip.compress(bytes(data), 1))
        if rng.random() < 0.8:  # noqa: PLR2004
            rng.choice((_flip, _cut, _delete))(data, rng)
    return bytes(data)


def _offset(data: bytearray, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _delete(data: bytearray, rng: random.Random) -> None:
    offset = _offset(data, rng)
    del data[offset : offset + rng.choice((1, 2, 5, 40, 400))]


def _insert(data: bytearray, rng: random.Random) -> None:
    offset = _offset(data, rng)
    data[offset:offset] = rng.randbytes(rng.choice((1, 2, 8)))


def _token(data: bytearray, rng: random.Random) -> None:
    offset = _offset(data, rng)
    data[offset:offset] = rng.choice(_TOKENS)


def _duplicate(data: bytearray, rng: random.Random) -> None:
    offset, target = _offset(data, rng), _offset(data, rng)
    data[target:target] = data[offset : offset + rng.choice((1, 10, 300, 3000))]


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[_offset(data, rng) :]


def _value(data: bytearray, rng: random.Random) -> None:
    """Put something else where a value was."""
    values = list(re.finditer(rb'(?<=: )(?:-?[\d.]+|"[^"]{0,80}")', data))
    if values:
        match = rng.choice(values)
        data[match.start() : match.end()] = rng.choice(_TOKENS)


_MUTATIONS: Sequence[Mutate] = (_flip, _delete, _insert, _token, _duplicate, _cut, _value, _value)


def find_faults(trace: Trace) -> list[str]:
    """List what does not fit together in a trace; nothing, if it is sound."""
    faults = [*_length_faults(trace), *_index_faults(trace), *_text_faults(trace)]
    if (trace.events.end < trace.events.start).any():
        faults.append("an event ends before it starts")
    if trace.written_events < len(trace.events):
        faults.append("more events than entries")
    if any(start >= end for start, end in trace.health.lost):
        faults.append("an empty lost span")
    return faults


def _length_faults(trace: Trace) -> list[str]:
    faults: list[str] = []
    for group in (trace.events, trace.gpu, trace.memory):
        columns = [getattr(group, name) for name in group.__struct_fields__]
        if len(set(map(len, columns))) != 1:
            faults.append(f"columns of {type(group).__name__} differ in length")
        if any(column.flags.writeable for column in columns):
            faults.append(f"a column of {type(group).__name__} can be written")
    return faults


def _index_faults(trace: Trace) -> list[str]:
    events, gpu = trace.events, trace.gpu
    device = np.isin(events.category, (*c.ACTIVITIES, c.SYNC))
    operator = events.category == c.CPU_OP
    other_details = events.detail[~device & ~operator]
    rows = np.sort(events.detail[device])
    checks = {
        "name": _is_within(events.name, 0, len(trace.names)),
        "track": _is_within(events.track, 0, len(trace.tracks)),
        "category": _is_within(events.category, 0, len(c.LABELS)),
        "shape": _is_within(events.detail[operator], -1, len(trace.shapes)),
        "row of GPU": bool(np.array_equal(rows, np.arange(len(gpu.device)))),
        "detail of others": bool((other_details == -1).all()),
        "geometry": _is_within(gpu.geometry, -1, len(trace.geometries)),
        "collective": _is_within(gpu.collective, -1, len(trace.collectives)),
    }
    return [
        f"index out of range: {index_name}" for index_name, sound in checks.items() if not sound
    ]


def _is_within(column: "np.typing.NDArray[np.integer]", low: int, high: int) -> bool:
    return bool(((column >= low) & (column < high)).all())


def _text_faults(trace: Trace) -> list[str]:
    texts = [*trace.names, *(str(track) for track in trace.tracks), *trace.health.notes]
    texts += [text for shape in trace.shapes for text in (*shape.types, *shape.concrete)]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return ["a text that cannot be printed"]
    return []


def try_mutant(text: bytes, folder: Path) -> str:
    """Read a mutant and say what came of it; an unsound trace raises ``AssertionError``."""
    path = folder / "mutant.json"
    path.write_bytes(text)
    try:
        trace = read(path, processes=1)
        faults = find_faults(trace)
        if faults:
            raise AssertionError("; ".join(faults))
        report_trace(trace)
    except GaplessError as error:
        return f"refused: {error.slug}"
    health = trace.health
    if health.truncated:
        return "cut: what was there is given"
    if health.dropped:
        return "some events dropped and counted"
    if health.repaired:
        return "some events repaired and counted"
    return "read as if nothing were wrong"


def report_trace(trace: Trace) -> str:
    """Take a trace all the way to the printed report; its sums are checked where they are made."""
    joined_trace = join_trace(trace)
    ledger = partition(trace, joined_trace=joined_trace)
    study = assemble_study([summarise_capture(joined_trace, ledger, Options())], [], Options())
    pen = pen_for(io.StringIO(), 100)
    return study_json(study) + "\n".join(map(str, study_screen(study, pen, TableView(3, None))))


def main() -> int:
    """Run, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    outcomes: Counter[str] = Counter()
    slowest, start_s = 0.0, time.perf_counter()
    sources = load_specimens()
    with tempfile.TemporaryDirectory() as name:
        for number in range(arguments.count):
            rng = random.Random(f"{arguments.seed}:{number}")
            text = mutate(rng.choice(sources), rng)
            before = time.perf_counter()
            try:
                outcomes[try_mutant(text, Path(name))] += 1
            except BaseException:
                print(f"mutant {number} of seed {arguments.seed}:", file=sys.stderr)
                raise
            slowest = max(slowest, time.perf_counter() - before)
    seconds = time.perf_counter() - start_s
    result = {
        "count": arguments.count,
        "seed": arguments.seed,
        "outcomes": dict(outcomes.most_common()),
        "seconds": round(seconds, 1),
        "slowest_s": round(slowest, 3),
        "machine": machine(),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
