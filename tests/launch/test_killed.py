"""What is left of an arm whose launcher is killed: nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

from gapless.launch import keeper
from tests.waiting import PATIENCE_S

HERE = Path(__file__).parent


def test_the_spool_of_an_arm_goes_with_its_launcher(tmp_path: Path) -> None:
    places = tmp_path / "temporary"
    places.mkdir()
    words = (sys.executable, str(HERE / "apart.py"), str(tmp_path), "{}", "sh", "-c")
    wait = f"echo >{tmp_path}/begun; exec sleep 1000"
    with subprocess.Popen((*words, wait), env={**os.environ, "TMPDIR": str(places)}) as launcher:
        until = time.monotonic() + PATIENCE_S
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert [one.name.startswith("gapless-spool-") for one in places.iterdir()] == [True]
        launcher.kill()
    until = time.monotonic() + PATIENCE_S
    while list(places.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    assert list(places.iterdir()) == []


def test_folders_without_rights_are_removed_and_what_links_point_to_stays(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    (gone / "work" / "work").mkdir(parents=True)
    (gone / "work" / "work" / "file").touch()
    kept.mkdir(mode=0o700)
    (gone / "link").symlink_to(kept)
    (gone / "work" / "work").chmod(0)
    keeper.remove(str(gone))
    assert not gone.exists()
    assert kept.stat().st_mode & 0o777 == 0o700
