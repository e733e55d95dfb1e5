"""``gapless explain``: pages of causes and edits."""

import pytest

from gapless import cli
from gapless.catalogue.fixes import FIXES
from gapless.catalogue.pages import rule_pages
from gapless.catalogue.rules import RULES
from gapless.doctor.checks import GROUPS
from gapless.errors import read_error_pages


@pytest.mark.parametrize("name", [RULES[0].code, RULES[0].code.lower(), RULES[0].name])
def test_a_cause_is_explained_by_its_code_and_by_its_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", name]) == 0
    assert capsys.readouterr().out == rule_pages.rule_page(RULES[0]) + "\n"


def test_an_edit_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", FIXES[0].name]) == 0
    assert capsys.readouterr().out.startswith(f"# {FIXES[0].name}\n")


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain"]) == 0
    listed_names = {
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] == "  "
    }
    slugs = {slug for slug, _ in read_error_pages()}
    checks = {name for group in GROUPS.values() for name in group}
    assert listed_names == {
        *(rule.code for rule in RULES),
        *(fix.name for fix in FIXES),
        *slugs,
        *checks,
    }


def test_a_check_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "shared-memory"]) == 0
    assert "64 MiB" in capsys.readouterr().out


def test_no_check_hides_the_page_of_something_else() -> None:
    checks = {name for group in GROUPS.values() for name in group}
    slugs = {slug for slug, _ in read_error_pages()}
    assert not checks & {*(rule.name for rule in RULES), *(fix.name for fix in FIXES), *slugs}


@pytest.mark.parametrize("slug", [slug for slug, _ in read_error_pages()])
def test_an_error_is_explained_where_no_docs_are_installed(
    slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", slug]) == 0
    assert capsys.readouterr().out.startswith(f"# {slug}\n\n")


def test_a_name_that_is_none_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", RULES[0].name + "s"]) == 2
    error = capsys.readouterr().err
    assert f"did you mean {RULES[0].name}" in error
    assert error.count("\n") == 1
