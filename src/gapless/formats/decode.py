"""A chunk of text → a batch. What does not decode is taken apart and mended event by event."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from gapless.formats import entries
from gapless.formats.columns import columns
from gapless.formats.columns.batch import Batch
from gapless.formats.columns.columns import Tally
from gapless.formats.columns.interning import IdTables
from gapless.formats.text import mend
from gapless.formats.text.chunks import Chunk, find_boundaries

_BLANK: Final = b" \t\r\n,"
_MAX_JOINED: Final = 8  # pieces that boundaries inside one event may have made of it
_MAX_MENDED: Final = 3  # of them; more take too long where nothing can be mended
_CLOSING: Final = re.compile(r"\s*,?\s*\]")
_ARRAY_END: Final = re.compile(r"\}\s*,?\s*\]")
_PHASE: Final = re.compile(r'"ph"\s*:\s*"')
_LENIENT: Final = json.JSONDecoder(strict=False)

Span = tuple[int, int]


class BatchMaker(Struct):
    """Makes batches; knows which names and tracks its earlier ones have brought along."""

    tables: IdTables = field(default_factory=IdTables)
    _decoder: "msgspec.json.Decoder[list[Any]]" = field(default_factory=entries.entry_decoder)

    def batch_of_chunk(self, chunk: Chunk) -> Batch:
        """Return the batch of a chunk; undecodable ends are kept for who knows the neighbours."""
        events = self._decode_list(chunk.as_list())
        if events is not None:
            return columns.make_batch(events, self.tables, Tally())
        return self.batch_of_text(chunk.text())

    def batch_of_text(self, text: bytes) -> Batch:
        """Return the batch of some text, as of a chunk."""
        events = self.decode_events(text)
        if events is not None:
            return columns.make_batch(events, self.tables, Tally())
        return _Dissection(self, text).batch()

    def batch_of_piece(self, text: bytes) -> Batch:
        """Return the batch of a piece of text that no neighbour completes."""
        tally = Tally()
        events = self.mend_event(text, tally)
        if events is None:
            tally.dropped[mend.UNREADABLE] += 1
            tally.unmade += 1
        return columns.make_batch(events or [], self.tables, tally)

    def decode_events(self, text: bytes) -> list[Any] | None:
        """Decode a run of events; ``None`` if anything in it is not as it should be."""
        return self._decode_list(b"[" + text.strip(_BLANK) + b"]")

    def _decode_list(self, json_list: bytes) -> list[Any] | None:
        try:
            return self._decoder.decode(json_list)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def mend_event(self, text: bytes, tally: Tally) -> list[Any] | None:
        """Mend one event; none if it has to be dropped; ``None`` if it is no whole event."""
        mended = mend.mend_event(text)
        if mended.text is None:
            if mended.dropped is None:
                return None
            tally.dropped[mended.dropped] += 1
            tally.unmade += 1
            return []
        events = self.decode_events(mended.text)
        if events is not None:
            tally.repaired.update(mended.repairs)
        return events


class _Dissection(Struct):
    """A chunk that did not decode as a whole."""

    maker: BatchMaker
    text: bytes
    entries: list[Any] = field(default_factory=list[Any])
    tally: Tally = field(default_factory=Tally)
    bad: list[Span] = field(default_factory=list[Span])
    head: bytes | None = None
    tail: bytes | None = None
    footer: bytes | None = None

    def batch(self) -> Batch:
        """Return the batch of what could be read."""
        for span, events in self._pieces():
            if events is None:
                self.bad.append(span)
                continue
            self._settle()
            if self.footer is not None:
                break
            self.entries += events
        self._settle()
        batch = columns.make_batch(self.entries, self.maker.tables, self.tally)
        batch.head, batch.tail, batch.footer = self.head, self.tail, self.footer
        return batch

    def _pieces(self) -> Iterator[tuple[Span, list[Any] | None]]:
        """Yield runs of events that decode, and single pieces that do not, in order."""
        cuts = [0, *find_boundaries(self.text), len(self.text)]
        pending = [(0, len(cuts) - 1)]
        while pending:
            low, high = pending.pop()
            span = cuts[low], cuts[high]
            events = self.maker.decode_events(self.text[slice(*span)])
            if events is not None or high - low == 1:
                yield span, events
            else:
                middle = (low + high) // 2
                pending += [(middle, high), (low, middle)]

    def _settle(self) -> None:
        """Deal with a run of pieces that do not decode."""
        bad, self.bad = self.bad, []
        while bad and self.footer is None:
            n_used = self._settle_first(bad)
            bad = bad[n_used:]

    def _settle_first(self, bad: list[Span]) -> int:
        """Deal with the first of them; return how many it took."""
        start, stop = bad[0]
        for count in range(1, min(len(bad), _MAX_JOINED) + 1):
            if self._read_whole_event((start, bad[count - 1][1]), mendable=count <= _MAX_MENDED):
                return count
        may_be_one_event = 1 < len(bad) <= _MAX_JOINED and bad[-1][1] == len(self.text)
        if may_be_one_event and not any(map(self._is_sound, bad[1:])):
            # all of it one event that is cut off: nested lists look like more
            stop = len(self.text)
        end_guess = guess_end(self.text[start:]) if stop == len(self.text) else None
        if end_guess is not None and start:  # at the start it may be the rest of an event
            self.footer = self.text[start + end_guess[1] :]
            stop = start + end_guess[0]
        self._read_edge(start, stop)
        return sum(piece[0] < stop for piece in bad)

    def _is_sound(self, piece: Span) -> bool:
        """Return whether a piece is an event by itself, sound or to be mended."""
        text = self.text[slice(*piece)]
        return mend.mend_event(text).text is not None or _array_end(self.text, piece) is not None

    def _read_whole_event(self, span: Span, *, mendable: bool) -> bool:
        """Read a piece that may be one whole event, mended or followed by the end of the list."""
        end = _array_end(self.text, span)
        piece = self.text[slice(*span)]
        if end is not None:
            self.footer = self.text[end[1] :]
            piece = self.text[span[0] : end[0]]
        events = self.maker.decode_events(piece)
        if events is None and (mendable or end is not None):
            events = self.maker.mend_event(piece, self.tally)
        self.entries += events or []
        return events is not None or end is not None

    def _read_edge(self, start: int, stop: int) -> None:
        """Read the last event, or keep a piece that may belong to a neighbouring chunk."""
        piece = self.text[start:stop]
        events = self.maker.mend_event(piece, self.tally)
        if events is not None:
            self.entries += events
        elif stop == len(self.text):
            self.tail = piece
        elif start == 0 and self.footer is None:
            self.head = piece
        else:
            self.tally.dropped[mend.UNREADABLE] += 1
            self.tally.unmade += 1


def _array_end(text: bytes, span: Span) -> Span | None:
    """Return where the event in a span ends, and where the text after the closing bracket starts.

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
    return (
        (start + end, after) if _may_follow_events(text[after:].decode("latin-1").strip()) else None
    )


def _may_follow_events(footer: str) -> bool:
    """Return whether this may follow the list of events, and not a list inside an event."""
    if not footer.startswith(","):
        return footer == "" or (footer[0] == "}" and footer[1:].lstrip()[:1] not in (",", "}", "]"))
    try:
        _, end = _LENIENT.raw_decode("{" + footer[1:])
    except (ValueError, RecursionError):
        return _PHASE.search(footer) is None
    return end == len(footer)


def guess_end(piece: bytes) -> Span | None:
    """Find the closing bracket after an event that is itself broken, by what follows it."""
    text = piece.decode("latin-1")
    for match in _ARRAY_END.finditer(text):
        after = text[match.end() :].strip()
        try:
            if after in ("", "}"):  # a cut may have ended a list inside the event as well
                is_sound = mend.mend_event(piece[: match.start() + 1]).text is not None
            else:
                is_sound = bool(_LENIENT.decode("{" + after.removeprefix(",")))
        except (ValueError, RecursionError):
            continue
        if is_sound:
            return match.start() + 1, match.end()
    return None
