"""Prepare the pages of the docs site: ``docs/`` and what is too long to be kept in git.

``python -m tools.site FOLDER`` writes them; ``scripts/docs`` builds the site from there.
"""

import argparse
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.pages import fix_pages, rule_pages
from gapless.catalogue.rules import RULES

ROOT: Final = Path(__file__).parents[1]
RULE_FOLDER: Final = "causes"
FIX_PAGE: Final = "every-fix.md"
_OUTER_PAGES: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
_LINK_OR_CODE: Final = re.compile(
    r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)|`[^`]*`|\b(?P<code>G[1-9]\d\d)\b"
)
_CODES: Final = frozenset(rule.code for rule in RULES)
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_RULE_ROW: Final = re.compile(r"^\| (?P<code>G\d+) (?P<name>[a-z0-9-]+) \|", re.MULTILINE)
_FIX_ROW: Final = re.compile(r"^\| `(?P<name>[a-z0-9-]+)(?P<value>[^`]*)` \|", re.MULTILINE)


def write_site_pages(folder: Path) -> None:
    """Write all pages of the site into a folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for source, name in _OUTER_PAGES.items():
        shutil.copy(ROOT / source, folder / name)
    for page in folder.glob("*.md"):
        page.write_text(adapt_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / RULE_FOLDER).mkdir()
    for rule in RULES:
        (folder / RULE_FOLDER / f"{rule.code}.md").write_text(_full_rule(rule), encoding="utf-8")
    (folder / FIX_PAGE).write_text(
        f"# Every fix in full\n\n{fix_pages.fix_pages()}\n", encoding="utf-8"
    )


def adapt_page(text: str) -> str:
    """Return a page with its links as the site has them, and the codes of causes as links.

    A link to what the site does not have, a script say, becomes the plain name.
    """
    text = _RULE_ROW.sub(rf"| [\g<code> \g<name>]({RULE_FOLDER}/\g<code>.md) |", text)
    text = _FIX_ROW.sub(rf"| [`\g<name>\g<value>`]({FIX_PAGE}#\g<name>) |", text)
    return _outside_fences(text, lambda part: _LINK_OR_CODE.sub(_site_link, part))


def _site_link(link: re.Match[str]) -> str:
    if link["code"] in _CODES:
        return f"[{link['code']}]({RULE_FOLDER}/{link['code']}.md)"
    target, _, anchor = (link["target"] or "").partition("#")
    if not link["target"] or "://" in target:
        return link[0]
    target = target.removeprefix("../").removeprefix("docs/")
    target = _OUTER_PAGES.get(target, target)
    if target in _OUTER_PAGES.values() or not target or (ROOT / "docs" / target).is_file():
        return f"[{link['text']}]({target}{'#' * bool(anchor)}{anchor})"
    return link["text"] if link["text"].startswith("`") else f"`{link['text']}`"


def _full_rule(rule: Rule) -> str:
    page = rule_pages.rule_page(rule, links=True)
    fixes = f"]({rule_pages.FIXES_PAGE}#"
    return page.replace(fixes, f"](../{FIX_PAGE}#") + "\n"


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts = _FENCE.split(text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def main() -> None:
    """Write the pages into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write_site_pages(parser.parse_args().folder)


if __name__ == "__main__":
    main()
