"""A file of the user's as text that can be cut and joined, and as a tree that says where."""

import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import libcst as cst
from libcst.metadata import (
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    Scope,
    ScopeProvider,
)
from msgspec import Struct
from msgspec.structs import replace

_NEWLINE: Final = re.compile(r"\r\n?|\n")


class UnwritableError(Exception):
    """A change that must be made by hand; the message is the reason, as a clause."""


class Splice(NamedTuple):
    """Characters of a text that are replaced; none (``start == end``): something is inserted."""

    start: int
    end: int
    text: str


class SyntaxTree(Struct, frozen=True, dict=True):
    """The syntax of a file, with the place and the meaning of its nodes."""

    text: str
    wrapper: MetadataWrapper

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each line of the text begins."""
        return (0, *(match.end() for match in _NEWLINE.finditer(self.text)))

    @cached_property
    def parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        """The parent of each node."""
        return self.wrapper.resolve(ParentNodeProvider)

    @cached_property
    def scopes(self) -> Mapping[cst.CSTNode, Scope | None]:
        """The scope that each node is in."""
        return self.wrapper.resolve(ScopeProvider)

    @cached_property
    def nodes(self) -> tuple[cst.CSTNode, ...]:
        """All nodes, in the order of the text."""
        return tuple(walk(self.wrapper.module))

    @property
    def calls(self) -> tuple[cst.Call, ...]:
        """All calls, in the order of the text."""
        return tuple(node for node in self.nodes if isinstance(node, cst.Call))

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return where a node begins and ends in the text."""
        position = self.wrapper.resolve(PositionProvider)[node]
        return (
            self.starts[position.start.line - 1] + position.start.column,
            self.starts[position.end.line - 1] + position.end.column,
        )

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def ancestors(self, node: cst.CSTNode) -> Iterable[cst.CSTNode]:
        """Yield what a node is in, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def line_start(self, offset: int) -> int:
        """Return where the line begins that an offset is in."""
        return max(start for start in self.starts if start <= offset)

    def indent(self, offset: int) -> str:
        """Return the white space that the line of an offset begins with."""
        return re.match(r"[ \t\f]*", self.text[self.line_start(offset) :])[0]  # type: ignore[index]

    @cached_property
    def newline(self) -> str:
        """What lines end with: as the first one does."""
        match = _NEWLINE.search(self.text)
        return match[0] if match else "\n"


class SourceFile(Struct, frozen=True, dict=True):
    """A file as it stands after some changes, and where the lines that it had are now."""

    path: Path
    encoding: str
    text: str
    lines: tuple[int, ...]  # where each line of the file on disk now begins
    module: str = ""

    @cached_property
    def tree(self) -> SyntaxTree:
        """The syntax. Raises ``UnwritableError`` if it cannot be read."""
        try:
            module = cst.parse_module(self.text)
        except (cst.ParserSyntaxError, RecursionError):
            raise UnwritableError(f"{self.path.name} cannot be parsed") from None
        if module.code != self.text:
            raise UnwritableError(f"{self.path.name} cannot be written back as it is")
        return SyntaxTree(self.text, MetadataWrapper(module, unsafe_skip_copy=True))

    @property
    def data(self) -> bytes:
        """The bytes of the file. Raises ``UnwritableError`` if its coding has no such letter."""
        try:
            return self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise UnwritableError(f"{self.path.name} cannot be written: {error}") from None

    def line_span(self, line: int) -> tuple[int, int]:
        """Return where a line of the file on disk is now. Raises ``UnwritableError``."""
        if not 0 < line <= len(self.lines):
            raise UnwritableError(f"{self.path.name} has no line {line}")
        start = self.lines[line - 1]
        match = _NEWLINE.search(self.text, start)
        return start, match.start() if match else len(self.text)

    def splice(self, splices: Iterable[Splice]) -> "SourceFile":
        """Return the source with these changes, which do not overlap."""
        pieces, position = list[str](), 0
        ordered = sorted(dict.fromkeys(splices), key=lambda splice: splice.start)
        for start, end, text in ordered:
            if start < position:
                raise UnwritableError("two changes meet in one place")
            pieces += [self.text[position:start], text]
            position = end
        text = "".join([*pieces, self.text[position:]])
        lines = tuple(_shift(offset, ordered) for offset in self.lines)
        return replace(self, text=text, lines=lines)


def read_source(path: Path, data: bytes) -> SourceFile:
    """Return a file's source. Raises ``UnwritableError`` if it is no Python that can be read."""
    if path.suffix == ".ipynb":
        raise UnwritableError(f"{path.name} is a notebook")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        raise UnwritableError(f"{path.name} is not in the coding that it names") from None
    starts = (0, *(match.end() for match in _NEWLINE.finditer(text)))
    return SourceFile(path, encoding, text, starts)


def _shift(offset: int, splices: Sequence[Splice]) -> int:
    """Return where what was at an offset is after changes: what is inserted there is before it."""
    return offset + sum(
        len(text) - (min(end, offset) - start)
        for start, end, text in splices
        if start < offset or start == offset == end
    )


def walk(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """Yield a node and all that it consists of, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)
