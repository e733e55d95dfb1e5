"""Names from traces on a terminal: nothing acts, nothing breaks the line, nothing is too wide."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gapless.report.text.console import ASCII, UNICODE, bar
from gapless.report.text.numbers import count, duration, percent, rate, shares, size, unit_for
from gapless.report.text.text import clean, cut_end, cut_middle, kernel_name, pad
from gapless.report.text.wrap import fold


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::mm", "aten::mm"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\rest", "rest"),
        ("a\x9b2Jb", "ab"),
        ("two\nlines\ttab\rreturn", "two lines tab return"),
        ("right\u202eto left", "rightto left"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\x1b", ""),
        ("line\u2028separator", "line separator"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("[bold]kept[/bold]", "[bold]kept[/bold]"),
        ("Größe ∇ 日本", "Größe ∇ 日本"),
    ],
)
def test_a_name_is_shown_without_what_would_act(name: str, expected: str) -> None:
    assert clean(name) == expected


@given(st.text())
def test_no_control_or_format_character_survives(name: str) -> None:
    kinds = {unicodedata.category(char) for char in clean(name)}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(st.characters(exclude_categories=["C", "M", "Z"])), st.integers(0, 30))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    short = cut_middle(text, width)
    assert cell_len(short) <= width
    assert short == text or cell_len(text) > width


def test_texts_are_shortened_in_the_middle_by_cells() -> None:
    assert cut_middle("abcdefghij", 5) == "ab…ij"
    assert cut_middle("日本日本日本", 5) == "日…本"
    assert cut_middle("abc", 1) == "…"
    assert cut_middle("abc", 0) == ""


def test_texts_are_cut_at_their_end_by_cells() -> None:
    assert cut_end("abcdefghij", 5) == "abcd…"
    assert cut_end("日本日本日本", 6) == "日本…"
    assert cut_end("abc", 3) == "abc"


def test_padding_counts_cells() -> None:
    assert pad("日", 4) == "日  "
    assert pad("日", 4, right=True) == "  日"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void f<int>(int*, float)", "f<int>"),
        ("void at::native::(anonymous namespace)::k<f(int)>(int)", None),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("plain", "plain"),
        ("broken)", "broken)"),
        ("(only)", "(only)"),
    ],
)
def test_kernels_lose_what_all_of_them_share(name: str, short: str | None) -> None:
    expected = "at::native::(anonymous namespace)::k<f(int)>" if short is None else short
    assert kernel_name(name) == expected


def test_lines_are_folded_at_spaces_and_units_stay_with_their_number() -> None:
    assert [str(line) for line in fold("it took 12.5 ms · and 3 %", 13)] == [
        "it took",
        "12.5 ms · and",
        "3 %",
    ]
    assert [str(line) for line in fold("abcdefghij", 5)] == ["ab…ij"]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=9).filter(any))
def test_printed_shares_sum_to_a_hundred(parts: list[int]) -> None:
    assert sum(round(float(share) * 10) for share in shares(parts)) == 1000


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00 µs"),
        (12_346, "12.35 µs"),
        (123_456, "123.5 µs"),
        (1_234_567, "1.235 ms"),
        (12_345_678, "12.35 ms"),
        (290_000_000, "290.0 ms"),
        (12_345_678_900, "12.35 s"),
    ],
)
def test_durations_have_four_digits(ns: int, text: str) -> None:
    assert duration(ns) == text
    assert unit_for(ns).fmt(ns) == text.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0001, "< 0.1 %"),
        (0.054, "5.4 %"),
        (0.5, "50 %"),
        (0.954, "95.4 %"),
        (0.9999, "> 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percents_are_finer_near_nothing_and_near_all(share: float, text: str) -> None:
    assert percent(share) == text


def test_counts_sizes_and_rates_are_short() -> None:
    assert [count(number) for number in (3, 1234, 0.5, 12.34)] == ["3", "1,234", "0.50", "12.3"]
    assert [size(number) for number in (10, 2048, 3 << 20, 5 << 30, 6 << 40)] == [
        "10 B",
        "2.0 KiB",
        "3.0 MiB",
        "5.0 GiB",
        "6.0 TiB",
    ]
    assert (rate(25e9), rate(2e6)) == ("25.0 GB/s", "2.0 MB/s")


@given(st.floats(0, 1), st.integers(1, 40))
def test_bars_fit_their_room_and_show_whatever_is_there(share: float, width: int) -> None:
    for signs in (UNICODE, ASCII):
        drawn = bar(share, width, signs)
        assert len(drawn) <= width
        assert bool(drawn) == (share > 0)
    assert re.fullmatch("#*", bar(share, width, ASCII))


def test_bars_are_drawn_in_eighths() -> None:
    assert bar(0.5, 3, UNICODE) == "█▌"
    assert bar(1, 3, ASCII) == "###"
