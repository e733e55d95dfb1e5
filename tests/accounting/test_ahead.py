"""Work on batches in threads."""

import os
import threading

import pytest

from gapless.accounting.ahead import map_ahead


def test_results_come_in_order_from_more_items_than_threads() -> None:
    assert list(map_ahead(lambda item: item * item, range(50))) == [
        item * item for item in range(50)
    ]
    assert list(map_ahead(str, [])) == []


def test_what_fails_in_a_thread_fails_here_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        list(map_ahead(lambda item: 1 // item, [1, 0, 1]))
    assert threading.active_count() == before


def test_works_where_a_process_is_not_bound_to_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert list(map_ahead(abs, [-1, -2])) == [1, 2]
