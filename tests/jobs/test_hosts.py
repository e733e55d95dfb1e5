"""Hosts with slow links, as network namespaces: the slow one is named, and none where all are."""

from pathlib import Path

import pytest

from benchmarks.judging.jobs import is_named, price_run
from benchmarks.menus.hosts import record_on_hosts
from gapless.pricing.diagnose import diagnose
from tests.jobs.cases import CASES, TRUTHS
from tests.jobs.hosts import UnavailableError, find_limits


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jobs-slow-link-c", "jobs-slow-link-four-c", "jobs-lean-hosts-c"])
def test_the_host_whose_link_is_slow_is_named(name: str, tmp_path: Path) -> None:
    try:
        runs = record_on_hosts(CASES[name], tmp_path, ("--window-steps", "2"))
    except UnavailableError as error:
        pytest.skip(str(error))
    diagnosis = diagnose(price_run(*runs))
    first = diagnosis.findings[0] if diagnosis.findings else None
    if TRUTHS[name].codes:
        assert is_named(first, TRUTHS[name])
    else:
        assert all(finding.detection.code != "G612" for finding in diagnosis.findings)


def test_links_are_slowed_as_a_case_says() -> None:
    names = ("slow-link-four", "lean-hosts", "lean-slow-hosts")
    four, sound, slow = (CASES[f"jobs-{name}-c"].options for name in names)
    assert [*find_limits(four)] == [3]
    assert find_limits(sound) == {}
    assert [*find_limits(slow)] == [0, 1, 2]
