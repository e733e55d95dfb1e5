"""What the house's benchmark reads from logs and folders."""

from pathlib import Path

import pytest

from benchmarks.house import count_lines, read_test_log


def test_the_closing_line_of_the_tests_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "== rerun test summary info ==\n=== 8496 passed, 1 rerun in 496.48s (0:08:16) ===\n"
    )
    assert read_test_log(log) == {"passed": 8496, "rerun": 1, "s": 496.48}
    log.write_text("no tests ran\n")
    with pytest.raises(ValueError, match="no closing line"):
        read_test_log(log)


def test_lines_are_counted_by_room(tmp_path: Path) -> None:
    texts = {
        tmp_path / "cli.py": "a\n",
        tmp_path / "a/b/x.py": "a\nb\n",
        tmp_path / "c/x.py": "a\n",
    }
    assert count_lines(tmp_path, texts) == {"a": 2, "c": 1}
