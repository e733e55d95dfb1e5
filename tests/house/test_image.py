"""The image as it is written: pinned, not root, nothing open; what it names exists.

It is built and run in ``tests/house/test_image_built.py``.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gapless import cli

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
_ENTRY: Final = (DEPLOY / "entry.sh").read_text(encoding="utf-8")


def read_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile with their arguments, each on one line."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    words = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [(name, " ".join(value.split())) for name, value in words]


INSTRUCTIONS: Final = read_instructions()
ARGUMENTS: Final = dict(value.split("=", 1) for name, value in INSTRUCTIONS if name == "ARG")


def values_of(instruction: str) -> list[str]:
    return [value for name, value in INSTRUCTIONS if name == instruction]


def test_what_comes_from_outside_is_an_argument_and_pinned() -> None:
    assert values_of("FROM") == ["${BASE}"]
    assert re.fullmatch(r"\S+:[\w.-]+@sha256:[0-9a-f]{64}", ARGUMENTS["BASE"])
    packages = f"{ARGUMENTS['TORCH']} {ARGUMENTS['TOOLS']}".replace('"', "").split()
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", package) for package in packages)
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n")
    assert packages[0] in constraints  # the torch that everything here is tested with


def test_nobody_is_root_and_no_service_starts_by_itself() -> None:
    assert values_of("USER") == ["gapless"]
    assert not ARGUMENTS["SSH"]
    (command,) = values_of("CMD")
    assert json.loads(command) == ["gapless", "doctor"]
    assert "PasswordAuthentication=no" in _ENTRY


def test_the_health_check_is_cheap_and_can_be_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (check,) = values_of("HEALTHCHECK")
    program, *arguments = json.loads(check.partition("CMD ")[2])
    assert program == "gapless"
    assert cli.main([*arguments, "--json"]) in {0, 1}
    assert json.loads(capsys.readouterr().out)["python"] is None  # none was started


def test_what_is_copied_and_started_exists() -> None:
    assert values_of("COPY") == [". /opt/gapless"]
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line[1:] for line in lines if line.startswith("!") and "dist/" not in line]
    assert all((ROOT / name).exists() for name in kept)
    (entry,) = values_of("ENTRYPOINT")
    script = json.loads(entry)[-1].removeprefix("/opt/gapless/")
    assert script in kept
    assert os.access(ROOT / script, os.X_OK)


def test_compose_starts_what_the_image_has_and_listens_here_alone() -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert services["ssh"]["profiles"] == ["ssh"]
    for service in services.values():
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        assert build.get("args", {}).keys() <= ARGUMENTS.keys()
        assert "command" not in service or f"{service['command']})" in _ENTRY
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_devcontainer_refers_to_what_exists() -> None:
    folder = ROOT / ".devcontainer"
    container = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / container["build"]["dockerfile"]).is_file()
    assert container["remoteUser"] in values_of("USER")
