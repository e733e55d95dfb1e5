"""Windows of the same steps on different ranks."""

from gapless.model.recording import Window
from gapless.recorded.shared_windows import group_windows


def window(first_step: int, last_step: int, start: int = 0, *, number: int = 1) -> Window:
    return Window(
        number=number,
        path="w",
        start=start,
        end=start + 10 * (last_step - first_step + 1),
        first_step=first_step,
        last_step=last_step,
        stacks=False,
        stop_ns=None,
        save_ns=None,
        discarded=None,
    )


def groups(*windows: tuple[str, int | None, Window]) -> dict[str, tuple[int, int]]:
    return {
        path: (membership.group, membership.first_step)
        for path, membership in group_windows(windows).items()
    }


def test_windows_of_the_same_steps_belong_together() -> None:
    groups_by_path = groups(
        ("a0", 0, window(13, 18, 100)),
        ("b0", 0, window(49, 54, 1000)),
        ("a1", 1, window(13, 18, 104)),
        ("b1", 1, window(49, 54, 1003)),
    )
    assert groups_by_path == {"a0": (0, 13), "a1": (0, 13), "b0": (1, 49), "b1": (1, 49)}


def test_a_window_that_one_rank_lacks_shifts_no_other() -> None:
    groups_by_path = groups(
        ("a0", 0, window(13, 18, 100)),
        ("b0", 0, window(49, 54, 1000)),
        ("b1", 1, window(49, 52, 1003)),
    )
    assert groups_by_path["b0"][0] == groups_by_path["b1"][0] != groups_by_path["a0"][0]


def test_the_steps_of_a_rank_that_was_started_again_are_others() -> None:
    groups_by_path = groups(("a0", 0, window(13, 18, 100)), ("a1", 1, window(13, 18, 9000)))
    assert groups_by_path["a0"][0] != groups_by_path["a1"][0]


def test_two_windows_of_one_rank_and_those_of_no_rank_are_never_together() -> None:
    groups_by_path = groups(
        ("a0", 0, window(13, 18, 100)), ("b0", 0, window(13, 18, 100)), ("x", None, window(13, 18))
    )
    assert groups_by_path["a0"][0] != groups_by_path["b0"][0]
    assert "x" not in groups_by_path
