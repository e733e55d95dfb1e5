"""The text of one event that is no JSON → JSON, if what its writer meant is plain.

Writers that print JSON without a library leave quotes and backslashes in names, ``N/A`` and ``inf``
for numbers, nothing at all for a value, commas too many.
"""

import re
from typing import Final

from msgspec import Struct, field

NO_NUMBER: Final = "no number (N/A, inf, nan)"
_SPACE: Final = re.compile(r"\s*")
_PLAIN: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD: Final = re.compile(r'[^\s,:{}\[\]"]+')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_ODD_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|-?\d+\.-\d+")
_NO_NUMBER: Final = re.compile(
    r"[-+]?(?:nan(?:\(.*)?|inf|infinity|n/a|none|null|\d*\.?#\w+)", re.IGNORECASE
)
_BAD_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<bad>))', re.DOTALL)
_QUOTE: Final = re.compile(r'\\.|(?P<quote>")', re.DOTALL)
# What may follow the quote that ends a value, so that it is not one inside the value.
_AFTER_MEMBER: Final = re.compile(r'\s*,\s*"[^"\\]*"\s*:')
_AFTER_ELEMENT: Final = re.compile(r'\s*,\s*["\[{\d\-tfn]|\s*\]')
_AFTER_LAST_MEMBER: Final = re.compile(r'\s*\}\s*(?:[}\]]|,\s*"[^"\\]*"\s*:|,\s*\{)')
# What no value between unescaped quotes holds: then the quotes belong to several members.
_NO_VALUE: Final = re.compile(r'\n|"(?:ph|cat|name|pid|tid|ts|dur|args|traceName)"\s*:')
_AFTER_EVENT: Final = re.compile(r"\s*\}\s*$")


class RewrittenEvent(Struct, frozen=True):
    """Text that should parse, and what was changed."""

    text: str
    repairs: tuple[str, ...]


def rewrite_event(text: str) -> RewrittenEvent | None:
    """Rewrite the text of one event; ``None`` if it is no whole event, or past mending."""
    scan = _EventScan(text)
    return (
        RewrittenEvent("".join(scan.out), tuple(dict.fromkeys(scan.repairs)))
        if scan.run()
        else None
    )


class _EventScan(Struct):
    text: str
    position: int = 0
    out: list[str] = field(default_factory=list[str])
    repairs: list[str] = field(default_factory=list[str])
    stack: list[str] = field(default_factory=list[str])  # of open brackets
    expected: str = "value"  # value, key, colon, comma (or a closing bracket)

    def run(self) -> bool:
        """Rewrite all of the text; return whether it was one whole object."""
        self._skip_space()
        if not self.text.startswith("{", self.position):
            return False
        while self.position < len(self.text):
            if not self._read_token(self.text[self.position]):
                return False
            self._skip_space()
            if not self.stack:
                return self.position == len(self.text)
        return False

    def _skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match is not None else self.position

    def _read_token(self, letter: str) -> bool:
        match letter:
            case "{" | "[":
                return self._read_open(letter)
            case "}" | "]":
                return self._read_close(letter)
            case ",":
                return self._read_comma()
            case ":":
                return self._read_colon()
            case '"':
                return self._read_string()
            case _:
                return self._read_word()

    def _put(self, text: str, expected: str, length: int) -> bool:
        self.out.append(text)
        self.expected = expected
        self.position += length
        return True

    def _read_open(self, letter: str) -> bool:
        if self.expected != "value":
            return False
        self.stack.append(letter)
        return self._put(letter, "key" if letter == "{" else "value", 1)

    def _read_close(self, letter: str) -> bool:
        if not self.stack or self.stack[-1] != {"}": "{", "]": "["}[letter]:
            return False
        if self.expected == "colon":
            return False
        if self.out[-1] == ",":
            self.out.pop()
            self.repairs.append("comma too many")
        elif self.out[-1] == ":":
            self._put_null()
        self.stack.pop()
        return self._put(letter, "comma", 1)

    def _put_null(self) -> None:
        self.out.append("null")
        self.repairs.append("empty value")

    def _read_comma(self) -> bool:
        if self.out[-1] == ":":
            self._put_null()
        elif self.expected != "comma":  # a second comma, or one after an opening bracket
            self.repairs.append("comma too many")
            self.position += 1
            return self.expected != "colon"
        return self._put(",", "key" if self.stack[-1] == "{" else "value", 1)

    def _read_colon(self) -> bool:
        return self.expected == "colon" and self._put(":", "value", 1)

    def _read_word(self) -> bool:
        match = _WORD.match(self.text, self.position)
        if match is None or self.expected != "value":
            return False
        word = match[0]
        if word in {"true", "false", "null"} or _NUMBER.fullmatch(word):
            return self._put(word, "comma", len(word))
        if _NO_NUMBER.fullmatch(word):
            self.repairs.append(NO_NUMBER)
            return self._put("null", "comma", len(word))
        if _ODD_NUMBER.fullmatch(word):
            self.repairs.append("number in an odd form")
            return self._put(f'"{word}"', "comma", len(word))
        return False

    def _read_string(self) -> bool:
        if self.expected == "key":
            match = _PLAIN.match(self.text, self.position)
            return match is not None and self._put(
                _fix_escapes(match[0][1:-1]), "colon", len(match[0])
            )
        if self.expected != "value":
            return False
        end = self._find_string_end()
        if end is None:
            return False
        body = self.text[self.position + 1 : end]
        quoted = _QUOTE.sub(_escape_quote, body)
        if quoted != body and _NO_VALUE.search(body):
            return False
        fixed = _fix_escapes(quoted)
        if quoted != body:
            self.repairs.append("unescaped quote")
        elif len(fixed) != len(body) + 2:
            self.repairs.append("bad escape")
        return self._put(fixed, "comma", len(body) + 2)

    def _find_string_end(self) -> int | None:
        """Return the place of the quote that ends the value which starts here."""
        for match in _QUOTE.finditer(self.text, self.position + 1):
            if match["quote"] and self._may_end(match.end()):
                return match.start()
        return None

    def _may_end(self, after: int) -> bool:
        if self.stack[-1] == "[":
            return _AFTER_ELEMENT.match(self.text, after) is not None
        after_last = _AFTER_EVENT if len(self.stack) == 1 else _AFTER_LAST_MEMBER
        return bool(_AFTER_MEMBER.match(self.text, after) or after_last.match(self.text, after))


def _escape_quote(match: re.Match[str]) -> str:
    return '\\"' if match["quote"] else match[0]


def _fix_escapes(body: str) -> str:
    """Return a JSON string: backslashes that start no escape stand for themselves."""
    return (
        '"'
        + _BAD_ESCAPE.sub(lambda match: match[0] if match["bad"] is None else "\\\\", body)
        + '"'
    )
