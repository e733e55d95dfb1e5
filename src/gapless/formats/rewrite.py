"""The text of one event that is no JSON → JSON, if what its writer meant is plain.

Writers that print JSON without a library leave quotes and backslashes in names, ``N/A`` and ``inf``
for numbers, nothing at all for a value, commas too many.
"""

import re
from dataclasses import dataclass, field
from typing import Final

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
_AFTER_LAST: Final = re.compile(r'\s*\}\s*(?:[}\]]|,\s*"[^"\\]*"\s*:|,\s*\{)')
# What no value between unescaped quotes holds: then the quotes belong to several members.
_NO_VALUE: Final = re.compile(r'\n|"(?:ph|cat|name|pid|tid|ts|dur|args|traceName)"\s*:')
_AFTER_ALL: Final = re.compile(r"\s*\}\s*$")


@dataclass(frozen=True)
class Rewritten:
    """Text that should parse, and what was changed."""

    text: str
    repairs: tuple[str, ...]


def event(text: str) -> Rewritten | None:
    """Rewrite the text of one event; ``None`` if it is no whole event, or past mending."""
    scan = _Scan(text)
    return Rewritten("".join(scan.out), tuple(dict.fromkeys(scan.repairs))) if scan.run() else None


@dataclass
class _Scan:
    text: str
    place: int = 0
    out: list[str] = field(default_factory=list[str])
    repairs: list[str] = field(default_factory=list[str])
    stack: list[str] = field(default_factory=list[str])  # of open brackets
    want: str = "value"  # value, key, colon, comma (or a closing bracket)

    def run(self) -> bool:
        """Rewrite all of the text; say whether it was one whole object."""
        self._space()
        if not self.text.startswith("{", self.place):
            return False
        while self.place < len(self.text):
            if not self._token(self.text[self.place]):
                return False
            self._space()
            if not self.stack:
                return self.place == len(self.text)
        return False

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.place)
        self.place = found.end() if found is not None else self.place

    def _token(self, letter: str) -> bool:
        match letter:
            case "{" | "[":
                return self._open(letter)
            case "}" | "]":
                return self._close(letter)
            case ",":
                return self._comma()
            case ":":
                return self._colon()
            case '"':
                return self._string()
            case _:
                return self._word()

    def _put(self, text: str, want: str, length: int) -> bool:
        self.out.append(text)
        self.want = want
        self.place += length
        return True

    def _open(self, letter: str) -> bool:
        if self.want != "value":
            return False
        self.stack.append(letter)
        return self._put(letter, "key" if letter == "{" else "value", 1)

    def _close(self, letter: str) -> bool:
        if not self.stack or self.stack[-1] != {"}": "{", "]": "["}[letter]:
            return False
        if self.want == "colon":
            return False
        if self.out[-1] == ",":
            self.out.pop()
            self.repairs.append("comma too many")
        elif self.out[-1] == ":":
            self._empty()
        self.stack.pop()
        return self._put(letter, "comma", 1)

    def _empty(self) -> None:
        self.out.append("null")
        self.repairs.append("empty value")

    def _comma(self) -> bool:
        if self.out[-1] == ":":
            self._empty()
        elif self.want != "comma":  # a second comma, or one after an opening bracket
            self.repairs.append("comma too many")
            self.place += 1
            return self.want != "colon"
        return self._put(",", "key" if self.stack[-1] == "{" else "value", 1)

    def _colon(self) -> bool:
        return self.want == "colon" and self._put(":", "value", 1)

    def _word(self) -> bool:
        found = _WORD.match(self.text, self.place)
        if found is None or self.want != "value":
            return False
        word = found[0]
        if word in {"true", "false", "null"} or _NUMBER.fullmatch(word):
            return self._put(word, "comma", len(word))
        if _NO_NUMBER.fullmatch(word):
            self.repairs.append(NO_NUMBER)
            return self._put("null", "comma", len(word))
        if _ODD_NUMBER.fullmatch(word):
            self.repairs.append("number in an odd form")
            return self._put(f'"{word}"', "comma", len(word))
        return False

    def _string(self) -> bool:
        if self.want == "key":
            found = _PLAIN.match(self.text, self.place)
            return found is not None and self._put(_sound(found[0][1:-1]), "colon", len(found[0]))
        if self.want != "value":
            return False
        end = self._string_end()
        if end is None:
            return False
        body = self.text[self.place + 1 : end]
        quoted = _QUOTE.sub(_escaped, body)
        if quoted != body and _NO_VALUE.search(body):
            return False
        sound = _sound(quoted)
        if quoted != body:
            self.repairs.append("unescaped quote")
        elif len(sound) != len(body) + 2:
            self.repairs.append("bad escape")
        return self._put(sound, "comma", len(body) + 2)

    def _string_end(self) -> int | None:
        """Give the place of the quote that ends the value which starts here."""
        for found in _QUOTE.finditer(self.text, self.place + 1):
            if found["quote"] and self._may_end(found.end()):
                return found.start()
        return None

    def _may_end(self, after: int) -> bool:
        if self.stack[-1] == "[":
            return _AFTER_ELEMENT.match(self.text, after) is not None
        last = _AFTER_ALL if len(self.stack) == 1 else _AFTER_LAST
        return bool(_AFTER_MEMBER.match(self.text, after) or last.match(self.text, after))


def _escaped(found: re.Match[str]) -> str:
    return '\\"' if found["quote"] else found[0]


def _sound(body: str) -> str:
    """Give a JSON string: backslashes that start no escape stand for themselves."""
    return '"' + _BAD_ESCAPE.sub(lambda m: m[0] if m["bad"] is None else "\\\\", body) + '"'
