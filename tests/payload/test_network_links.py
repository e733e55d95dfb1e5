"""The speeds of a machine's links: those that lead to a device."""

from pathlib import Path

import pytest

from gapless.payload import surroundings


def draw_link(folder: Path, name: str, speed: int, kind: str | None, *, device: bool) -> None:
    link = folder / name
    link.mkdir()
    (link / "speed").write_text(f"{speed}\n")
    (link / "uevent").write_text(f"{f'DEVTYPE={kind}' if kind else ''}\nINTERFACE={name}\n")
    if device:
        (link / "device").mkdir()


def test_links_of_containers_and_bridges_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_link(tmp_path, "eth0", 1000, None, device=True)
    draw_link(tmp_path, "eth1", -1, None, device=True)
    draw_link(tmp_path, "bond0", 20_000, "bond", device=False)
    draw_link(tmp_path, "docker0", 10_000, "bridge", device=False)
    for number in range(100):  # before "eth0" by their names
        draw_link(tmp_path, f"cali{number}", 10_000, None, device=False)
    (tmp_path / "lo").mkdir()
    monkeypatch.setattr(surroundings, "_NETWORK", str(tmp_path))
    monkeypatch.setattr(surroundings, "_FABRIC", str(tmp_path / "none"))
    monkeypatch.setattr("gapless.payload.surroundings._machine.links", None)
    assert surroundings.links() == {"bond0": 20_000, "eth0": 1000}
