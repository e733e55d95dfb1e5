"""Where a browser is required, a missing one is a failure; else it is a skipped test."""

import pytest

from tests.page.browser import find_browser


def test_a_missing_browser_fails_only_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("GAPLESS_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no Chromium"):
        find_browser()
    monkeypatch.setenv("GAPLESS_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="there is no Chromium"):
        find_browser()
