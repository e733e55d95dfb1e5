"""Windows of the same steps on different ranks."""

from gapless.model.recording import Window
from gapless.study.recorded.together import places


def window(first: int, last: int, start: int = 0, *, number: int = 1) -> Window:
    return Window(
        number=number,
        path="w",
        start=start,
        end=start + 10 * (last - first + 1),
        first_step=first,
        last_step=last,
        stacks=False,
        stop_ns=None,
        save_ns=None,
        discarded=None,
    )


def groups(*windows: tuple[str, int | None, Window]) -> dict[str, tuple[int, int]]:
    return {path: (one.together, one.first_step) for path, one in places(windows).items()}


def test_windows_of_the_same_steps_belong_together() -> None:
    found = groups(
        ("a0", 0, window(13, 18, 100)),
        ("b0", 0, window(49, 54, 1000)),
        ("a1", 1, window(13, 18, 104)),
        ("b1", 1, window(49, 54, 1003)),
    )
    assert found == {"a0": (0, 13), "a1": (0, 13), "b0": (1, 49), "b1": (1, 49)}


def test_a_window_that_one_rank_lacks_shifts_no_other() -> None:
    found = groups(
        ("a0", 0, window(13, 18, 100)),
        ("b0", 0, window(49, 54, 1000)),
        ("b1", 1, window(49, 52, 1003)),
    )
    assert found["b0"][0] == found["b1"][0] != found["a0"][0]


def test_the_steps_of_a_rank_that_was_started_again_are_others() -> None:
    found = groups(("a0", 0, window(13, 18, 100)), ("a1", 1, window(13, 18, 9000)))
    assert found["a0"][0] != found["a1"][0]


def test_two_windows_of_one_rank_and_those_of_no_rank_are_never_together() -> None:
    found = groups(
        ("a0", 0, window(13, 18, 100)), ("b0", 0, window(13, 18, 100)), ("x", None, window(13, 18))
    )
    assert found["a0"][0] != found["b0"][0]
    assert "x" not in found
