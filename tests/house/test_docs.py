"""The docs: links resolve, every error and leaf has its place, generated parts are fresh."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import gapless
from gapless.catalogue.fixes import FIXES
from gapless.catalogue.rules import RULES
from gapless.errors import GaplessError
from gapless.model.leaf import LEAVES
from tools import docs

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/**/README.md")]
    if not any(component.startswith(".") for component in path.relative_to(ROOT).parts)
)
LONGEST_REPORT: Final = 18  # lines
FRAMEWORKS: Final = tuple(
    f"integrations.{name}" for name in ("lightning", "transformers", "accelerate")
)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_RULE_CODE: Final = re.compile(r"\bG\d{3}\b")
_CODE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and Zensical make them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}


def links(page: Path) -> list[str]:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [
        link for link in _LINK.findall(text) if "://" not in link and not link.startswith("mailto:")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_resolve(page: Path) -> None:
    broken = [link for link in links(page) if not resolves(page, link)]
    assert broken == []


def resolves(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n## A `b`: c\n```sh\n# no heading\n```\n")
    assert resolves(page, "#a-b-c")
    assert not resolves(page, "#no-heading")
    assert not resolves(page, "other.md")


def descendants(kind: type[GaplessError]) -> Iterator[type[GaplessError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from descendants(child)


def test_every_error_has_a_heading_of_its_own() -> None:
    for module in pkgutil.walk_packages(gapless.__path__, "gapless."):
        # What TensorBoard and other frameworks import: these need not be there.
        if not module.name.endswith(("__main__", "tab.plugin", *FRAMEWORKS)):
            importlib.import_module(module.name)
    slugs = {kind.slug for kind in descendants(GaplessError)}
    assert slugs <= anchors(ROOT / "docs/errors.md")


def test_every_leaf_is_explained() -> None:
    page = (ROOT / "docs/the-account.md").read_text(encoding="utf-8")
    explained = docs.fill(page, dict.fromkeys(docs.PAGES["docs/the-account.md"], str))
    missing = [
        leaf
        for leaf in LEAVES
        if f"`{leaf}`" not in explained and f"`.{leaf.rpartition('.')[2]}`" not in explained
    ]
    assert missing == []


def test_codes_in_the_docs_are_those_of_rules() -> None:
    codes = {rule.code for rule in RULES}
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {page.name: set(_RULE_CODE.findall(page.read_text(encoding="utf-8"))) for page in pages}
    assert {name: found - codes for name, found in named.items() if found - codes} == {}
    assert len(named["symptoms.md"]) > 20


def test_public_names_are_documented() -> None:
    undocumented = [
        name
        for name in gapless.__all__
        if not name.startswith("__") and not inspect.getdoc(getattr(gapless, name))
    ]
    assert undocumented == []


def test_generated_parts_are_fresh() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tools.docs", "--check"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (process.returncode, process.stdout) == (0, "")


def test_the_report_on_the_first_screen_is_short() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    report = page.partition("<!-- generated: report -->")[2].partition("<!-- end -->")[0]
    assert 0 < len(report.split("```")[1].splitlines()[1:]) <= LONGEST_REPORT


def test_full_pages_hold_every_rule_and_fix(tmp_path: Path) -> None:
    docs.write_full_pages(tmp_path)
    rules = (tmp_path / "rules.md").read_text(encoding="utf-8")
    fixes = (tmp_path / "fixes.md").read_text(encoding="utf-8")
    assert [rule.code for rule in RULES if rule.code not in rules] == []
    assert [fix.name for fix in FIXES if f"## {fix.name}" not in fixes] == []


def test_a_block_that_the_page_lacks_is_refused() -> None:
    with pytest.raises(KeyError, match="groups"):
        docs.fill("no block here", {"groups": lambda: ""})


def test_only_the_inside_of_a_block_is_replaced() -> None:
    page = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n"
    assert docs.fill(page, {"x": lambda: "new"}) == page.replace("old", "new")


def test_every_benchmark_is_listed_with_what_it_shows() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    missing = [
        script.stem
        for script in sorted((ROOT / "benchmarks").glob("*.py"))
        if "def main()" in script.read_text(encoding="utf-8")
        if not re.search(rf"\b{script.stem}\b", page)
    ]
    assert missing == []


def test_every_result_is_of_a_listed_benchmark() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    names = set(re.findall(r"benchmarks\.(\w+)|`(\w+)`", page))
    scripts = {name for pair in names for name in pair if name}
    results = (ROOT / "benchmarks" / "results").glob("*.json")
    unknown = [path.stem for path in results if not any(map(path.stem.startswith, scripts))]
    assert sorted(unknown) == []
