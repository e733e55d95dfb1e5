"""What to do about a slow link: where to look, as far as it is known whose it is."""

from gapless.catalogue.examples.reading import read_figures
from gapless.catalogue.pages import rule_pages
from gapless.catalogue.rules.ranks.slow_link import slow_link


def remedy_of(title: str) -> str:
    (figure,) = (figure for figure in read_figures(slow_link) if figure.title.startswith(title))
    (detection,) = rule_pages.detect_in_figure(slow_link, figure)
    return detection.no_remedy or ""


def test_of_a_single_slow_exchange_both_hosts_are_looked_at() -> None:
    remedy = remedy_of("Two hosts, one of which sends slowly")
    assert remedy.startswith("see what slows it on that host, or on a, which receives it: `ethtool")


def test_of_several_the_host_that_they_have_in_common_is_looked_at() -> None:
    remedy = remedy_of("What a host receives is slow")
    assert remedy.startswith("see what slows it on that host: `ethtool ib0`")
    assert remedy_of("Six hosts").startswith("see what slows it on those hosts: `ethtool eth0`")
