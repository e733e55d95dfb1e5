"""A chunk of text → a batch. What does not decode is taken apart and mended event by event."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gapless.formats import columns, entries, mend
from gapless.formats.batch import Batch
from gapless.formats.chunks import Chunk, boundaries
from gapless.formats.columns import Tally
from gapless.formats.interning import Tables

_BLANK: Final = b" \t\r\n,"
_MOST_JOINED: Final = 8  # pieces that boundaries inside one event may have made of it
_MOST_MENDED: Final = 3  # of them; more take too long where nothing can be mended
_CLOSING: Final = re.compile(r"\s*,?\s*\]")
_LAST: Final = re.compile(r"\}\s*,?\s*\]")
_PHASE: Final = re.compile(r'"ph"\s*:\s*"')
_LENIENT: Final = json.JSONDecoder(strict=False)

Span = tuple[int, int]


@dataclass
class Maker:
    """Makes batches; knows what its earlier ones have told already."""

    tables: Tables = field(default_factory=Tables)
    _decoder: "msgspec.json.Decoder[list[Any]]" = field(default_factory=entries.decoder)

    def chunk(self, chunk: Chunk) -> Batch:
        """Give the batch of a chunk, its undecodable ends left to whoever knows the neighbours."""
        found = self._decoded(chunk.listed())
        if found is not None:
            return columns.make(found, self.tables, Tally())
        return self.make(chunk.text())

    def make(self, text: bytes) -> Batch:
        """Give the batch of some text; as for a chunk."""
        found = self.decoded(text)
        if found is not None:
            return columns.make(found, self.tables, Tally())
        return _Dissection(self, text).batch()

    def mended(self, text: bytes) -> Batch:
        """Give the batch of a piece of text that no neighbour completes."""
        tally = Tally()
        found = self.repaired(text, tally)
        if found is None:
            tally.dropped[mend.UNREADABLE] += 1
            tally.unmade += 1
        return columns.make(found or [], self.tables, tally)

    def decoded(self, text: bytes) -> list[Any] | None:
        """Decode a run of events; ``None`` if anything in it is not as it should be."""
        return self._decoded(b"[" + text.strip(_BLANK) + b"]")

    def _decoded(self, listed: bytes) -> list[Any] | None:
        try:
            return self._decoder.decode(listed)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def repaired(self, text: bytes, tally: Tally) -> list[Any] | None:
        """Mend one event; none if it has to be dropped; ``None`` if it is no whole event."""
        outcome = mend.event(text)
        if outcome.text is None:
            if outcome.dropped is None:
                return None
            tally.dropped[outcome.dropped] += 1
            tally.unmade += 1
            return []
        found = self.decoded(outcome.text)
        if found is not None:
            tally.repaired.update(outcome.repairs)
        return found


@dataclass
class _Dissection:
    """A chunk that did not decode as a whole."""

    maker: Maker
    text: bytes
    entries: list[Any] = field(default_factory=list[Any])
    tally: Tally = field(default_factory=Tally)
    bad: list[Span] = field(default_factory=list[Span])
    head: bytes | None = None
    tail: bytes | None = None
    rest: bytes | None = None

    def batch(self) -> Batch:
        """Give the batch of what could be read."""
        for span, found in self._pieces():
            if found is None:
                self.bad.append(span)
                continue
            self._settle()
            if self.rest is not None:
                break
            self.entries += found
        self._settle()
        batch = columns.make(self.entries, self.maker.tables, self.tally)
        batch.head, batch.tail, batch.rest = self.head, self.tail, self.rest
        return batch

    def _pieces(self) -> Iterator[tuple[Span, list[Any] | None]]:
        """Give runs of events that decode, and single pieces that do not, in order."""
        cuts = [0, *boundaries(self.text), len(self.text)]
        waiting = [(0, len(cuts) - 1)]
        while waiting:
            low, high = waiting.pop()
            span = cuts[low], cuts[high]
            found = self.maker.decoded(self.text[slice(*span)])
            if found is not None or high - low == 1:
                yield span, found
            else:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]

    def _settle(self) -> None:
        """Deal with a run of pieces that do not decode."""
        bad, self.bad = self.bad, []
        while bad and self.rest is None:
            used = self._settle_first(bad)
            bad = bad[used:]

    def _settle_first(self, bad: list[Span]) -> int:
        """Deal with the first of them; say how many it took."""
        start, stop = bad[0]
        for count in range(1, min(len(bad), _MOST_JOINED) + 1):
            if self._whole((start, bad[count - 1][1]), mendable=count <= _MOST_MENDED):
                return count
        few = 1 < len(bad) <= _MOST_JOINED and bad[-1][1] == len(self.text)
        if few and not any(map(self._sound, bad[1:])):
            stop = len(
                self.text
            )  # all of it one event that is cut off: nested lists look like more
        guessed = guessed_end(self.text[start:]) if stop == len(self.text) else None
        if guessed is not None and start:  # at the start it may be the rest of an event
            self.rest = self.text[start + guessed[1] :]
            stop = start + guessed[0]
        self._edge(start, stop)
        return sum(piece[0] < stop for piece in bad)

    def _sound(self, piece: Span) -> bool:
        """Say whether a piece is an event by itself, sound or to be mended."""
        text = self.text[slice(*piece)]
        return mend.event(text).text is not None or _array_end(self.text, piece) is not None

    def _whole(self, span: Span, *, mendable: bool) -> bool:
        """Read a piece that may be one whole event, mended or followed by the end of the list."""
        end = _array_end(self.text, span)
        piece = self.text[slice(*span)]
        if end is not None:
            self.rest = self.text[end[1] :]
            piece = self.text[span[0] : end[0]]
        found = self.maker.decoded(piece)
        if found is None and (mendable or end is not None):
            found = self.maker.repaired(piece, self.tally)
        self.entries += found or []
        return found is not None or end is not None

    def _edge(self, start: int, stop: int) -> None:
        """Read the last event, or keep a piece that may belong to a neighbouring chunk."""
        piece = self.text[start:stop]
        found = self.maker.repaired(piece, self.tally)
        if found is not None:
            self.entries += found
        elif stop == len(self.text):
            self.tail = piece
        elif start == 0 and self.rest is None:
            self.head = piece
        else:
            self.tally.dropped[mend.UNREADABLE] += 1
            self.tally.unmade += 1


def _array_end(text: bytes, span: Span) -> Span | None:
    """Give where the event in a span ends, and where the text after the closing bracket starts.

    ``None`` if no sound event starts there, or if the list does not end after it.
    """
    start, stop = span
    letters = text[start:stop].decode("latin-1")  # one letter a byte; what JSON is made of is ASCII
    closing = _CLOSING.match(letters)
    end = 0
    if closing is None:
        try:
            event, end = _LENIENT.raw_decode(letters, len(letters) - len(letters.lstrip()))
        except (ValueError, RecursionError):
            return None
        if isinstance(event, dict) and "ph" in event:
            closing = _CLOSING.match(letters, end)
    if closing is None:
        return None
    after = start + closing.end()
    return (start + end, after) if _may_follow(text[after:].decode("latin-1").strip()) else None


def _may_follow(rest: str) -> bool:
    """Say whether this may follow the list of events, and not a list inside an event."""
    if not rest.startswith(","):
        return rest == "" or (rest[0] == "}" and rest[1:].lstrip()[:1] not in (",", "}", "]"))
    try:
        _, end = _LENIENT.raw_decode("{" + rest[1:])
    except (ValueError, RecursionError):
        return _PHASE.search(rest) is None
    return end == len(rest)


def guessed_end(piece: bytes) -> Span | None:
    """Find the closing bracket after an event that is itself broken, by what follows it."""
    text = piece.decode("latin-1")
    for found in _LAST.finditer(text):
        after = text[found.end() :].strip()
        try:
            if after in ("", "}"):  # a cut may have ended a list inside the event as well
                sound = mend.event(piece[: found.start() + 1]).text is not None
            else:
                sound = bool(_LENIENT.decode("{" + after.removeprefix(",")))
        except (ValueError, RecursionError):
            continue
        if sound:
            return found.start() + 1, found.end()
    return None
