"""What is left of an arm whose launcher is killed: nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

from gapless.launch.trial import supervisor
from tests.waiting import PATIENCE_S

TESTS = Path(__file__).parent


def test_the_spool_of_an_arm_goes_with_its_launcher(tmp_path: Path) -> None:
    temp_folder = tmp_path / "temporary"
    temp_folder.mkdir()
    words = (sys.executable, str(TESTS / "apart.py"), str(tmp_path), "{}", "sh", "-c")
    script = f"echo >{tmp_path}/begun; exec sleep 1000"
    with subprocess.Popen(
        (*words, script), env={**os.environ, "TMPDIR": str(temp_folder)}
    ) as launcher:
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [path.name.startswith("gapless-spool-") for path in temp_folder.iterdir()] == [True]
        launcher.kill()
    deadline = time.monotonic() + PATIENCE_S
    while list(temp_folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(temp_folder.iterdir()) == []


def test_folders_without_rights_are_removed_and_what_links_point_to_stays(tmp_path: Path) -> None:
    linked_folder, removed_folder = tmp_path / "kept", tmp_path / "gone"
    (removed_folder / "work" / "work").mkdir(parents=True)
    (removed_folder / "work" / "work" / "file").touch()
    linked_folder.mkdir(mode=0o700)
    (removed_folder / "link").symlink_to(linked_folder)
    (removed_folder / "work" / "work").chmod(0)
    supervisor.remove(str(removed_folder))
    assert not removed_folder.exists()
    assert linked_folder.stat().st_mode & 0o777 == 0o700
