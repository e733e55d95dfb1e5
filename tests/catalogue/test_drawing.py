"""Traces drawn as text."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.catalogue.examples import drawing, example_facts
from gapless.catalogue.examples.evidence import evidence_of_drawing

LEAVES = {
    "p": "idle.host.python",
    "w": "idle.data.unstaged",
    "W": "idle.data.main",
    "t": "idle.data.start-up",
    "k": "idle.io_main.checkpoint",
    "y": "idle.io_main.logging",
    "e": "idle.io_main.eval",
    "g": "idle.gc",
    "o": "busy.elementwise",
}


@given(st.text("".join(LEAVES), min_size=1, max_size=40))
def test_each_column_of_a_training_thread_is_charged_to_what_is_drawn(row: str) -> None:
    account = drawing.foreign_evidence(f"step {'a' * len(row)}\nmain {row}").study.account
    expected = Counter(LEAVES[letter] for letter in row)
    assert {name: ns // drawing.MILLISECOND for name, ns in account.leaves.items()} == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("main ww ww", "a row is the name of a lane and its cells"),
        ("gpu ww", "'w' is no letter of the lane 'gpu'"),
        ("main ..\ngpu kk", "1 runs of the lane 'gpu', and 0 calls"),
        ("main pp\nworker rr", "1 fetches, and 0 waits"),
    ],
)
def test_a_drawing_that_means_no_trace_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        drawing.draw_trace(text)


def test_a_drawing_is_charged_as_drawn() -> None:
    account = drawing.foreign_evidence("""
        step    aaaaaaaaaabbbbbbbbbb
        main    wwwwwwlLppwwwwppccck
        gpu     ......mmee..........
        copy    ................hhh.
        worker  rddddc....rddc......
    """).study.account
    assert {name: ns // drawing.MILLISECOND for name, ns in account.leaves.items()} == {
        "idle.data.read": 2,
        "idle.data.decode": 6,
        "idle.data.collate": 2,
        "busy.tc_math": 2,
        "busy.elementwise": 2,
        "idle.host.python": 2,
        "copy.h2d.pageable": 3,
        "idle.io_main.checkpoint": 1,
    }
    assert account.steps == 2


def test_a_drawn_step_is_that_of_a_recorded_run() -> None:
    evidence = evidence_of_drawing("step aaaaaaaa\nmain wwwwpppp", example_facts.cpu())
    assert (evidence.share("idle.data"), evidence.on_device) == (0.5, False)
    assert evidence.study.recorded is not None
