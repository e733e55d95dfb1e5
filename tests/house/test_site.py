"""The docs site: all pages are in its navigation, its links resolve, it asks no network."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

from tools import site

ROOT: Final = Path(__file__).parents[2]
_NAV_PAGE: Final = re.compile(r'= "([a-z-]+\.md)"')


class PageReader(HTMLParser):
    """Collects the ids and links of a page, and what a browser loads with it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.ids.add(attributes.get("id") or "")
        if tag == "a":
            self.links.append(attributes.get("href") or "")
        else:
            self.loaded.append(attributes.get("src") or attributes.get("href") or "")


read_page = cache(PageReader)


def broken_links(page: Path) -> Iterator[str]:
    for link in read_page(page).links:
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link or (target.suffix == ".json" and target.is_file()):
            continue
        if target.is_dir():
            target /= "index.html"
        if not target.is_file() or (anchor and anchor not in read_page(target).ids):
            yield link


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    site.write_site_pages(folder)
    return folder


def test_every_page_is_in_the_navigation(pages: Path) -> None:
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    assert tomllib.loads(settings)["project"]["docs_dir"] == "build/docs"
    assert sorted(_NAV_PAGE.findall(settings)) == sorted(page.name for page in pages.glob("*.md"))


def test_links_to_what_the_site_lacks_become_text() -> None:
    text = "[a](../benchmarks/a.py) [b](../CONTRIBUTING.md#style) [c](the-account.md) `[d](e.md)`"
    assert site.adapt_page(text) == (
        "`a` [b](contributing.md#style) [c](the-account.md) `[d](e.md)`"
    )


def test_codes_of_causes_become_links_outside_code() -> None:
    page = site.adapt_page("G101, `G101`, G999\n```sh\ngapless explain G101\n```\n")
    assert page == "[G101](causes/G101.md), `G101`, G999\n```sh\ngapless explain G101\n```\n"


@pytest.mark.slow
def test_the_built_site_has_no_broken_link_and_loads_nothing_from_the_network() -> None:
    process = subprocess.run(
        [ROOT / "scripts/docs"], capture_output=True, check=False, text=True, cwd=ROOT
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "No issues found" in process.stdout + process.stderr
    pages = [page for page in (ROOT / "site").rglob("*.html") if page.name != "404.html"]
    broken = {page.name: links for page in pages if (links := [*broken_links(page)])}
    assert broken == {}
    loaded = [source for page in pages for source in read_page(page).loaded]
    assert [source for source in loaded if source.startswith(("http:", "https:", "//"))] == []
    assert len(pages) > len(site.RULES)
