"""How the recorder gets into a Python process, and what it leaves there."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.payload.watching import PLAIN, SITE, run_plain, run_recorded

STATE = """
import sys
ours = [one for one in sys.meta_path if type(one).__name__ == "_Door"]
print(len(ours), [type(one).__name__ for one in sys.meta_path if one not in ours])
print(sys.path, sorted(sys.modules), sorted(sys.path_importer_cache))
print(getattr(sys.modules.get("sitecustomize"), "__file__", None))
"""
ALL_HOOKS = """
import sys
try:
    import torch
except ImportError as error:
    print(error)
from _gapless.payload.process_state import STATE
print(STATE.notes, sys.modules["_gapless.payload.boot"].is_in())
print([name for name in sys.modules if name.startswith("gapless")])
"""


def find_interpreters() -> dict[str, str]:
    """Find a Python of each version that is here."""
    versions_folder = Path.home() / ".pyenv" / "versions"
    paths: dict[str, str] = {}
    for minor in range(9, 15):
        version = f"3.{minor}"
        for path in (
            shutil.which(f"python{version}"),
            *versions_folder.glob(f"{version}.*/bin/python"),
        ):
            if (
                path
                and not subprocess.run(
                    [path, "-c", ""], capture_output=True, check=False
                ).returncode
            ):
                paths[version] = str(path)
    return paths


INTERPRETERS = find_interpreters()


@pytest.mark.parametrize("version", INTERPRETERS)
def test_a_process_without_torch_is_left_as_it_was_but_for_one_finder(
    tmp_path: Path, version: str
) -> None:
    command = [INTERPRETERS[version], "-c", STATE]
    plain, recorded = (
        run_plain(command, tmp_path),
        run_recorded(command, tmp_path, tmp_path / "spool"),
    )
    assert plain.out.startswith("0 [")
    assert recorded.out == "1" + plain.out[1:]
    assert (recorded.code, recorded.err) == (0, "")
    assert not list((tmp_path / "spool").iterdir())


@pytest.mark.parametrize("version", INTERPRETERS)
def test_every_hook_can_be_installed_in_every_version(tmp_path: Path, version: str) -> None:
    (tmp_path / "torch").mkdir()
    broken = "raise ImportError('torch is broken here')"
    (tmp_path / "torch" / "__init__.py").write_text(broken)
    command = [INTERPRETERS[version], "-c", ALL_HOOKS]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    assert (recorded.code, recorded.err) == (0, "")
    assert recorded.out == "torch is broken here\n[] True\n[]\n"


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_where_it_cannot_enter_the_program_runs(tmp_path: Path, flag: str) -> None:
    command = [sys.executable, flag, "-c", "import sys; print(len(sys.meta_path))"]
    plain = run_plain(command, tmp_path)
    assert run_recorded(command, tmp_path, tmp_path / "spool") == plain


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("print('mine', __name__, __file__[-16:])", "mine sitecustomize sitecustomize.py"),
        ("raise RuntimeError('mine is broken')", ""),
        ("import nowhere_to_be_found", ""),
    ],
)
def test_the_users_own_sitecustomize_runs_as_without_us(
    tmp_path: Path, text: str, says: str
) -> None:
    own_folder = tmp_path / "own"
    own_folder.mkdir()
    (own_folder / "sitecustomize.py").write_text(text)
    command = [sys.executable, "-c", STATE]
    plain = run_plain(command, tmp_path, PYTHONPATH=str(own_folder))
    recorded = run_recorded(
        command, tmp_path, tmp_path / "spool", PYTHONPATH=f"{SITE}:{own_folder}"
    )
    assert plain.out.startswith(says)
    assert recorded.out == plain.out.replace("\n0 [", "\n1 [") if says else "1" + plain.out[1:]
    assert (recorded.code, recorded.err) == (plain.code, plain.err)


def test_children_find_the_recorder_and_an_environment_without_it_is_left_alone(
    tmp_path: Path,
) -> None:
    child = "import sys; print(any(type(one).__name__ == '_Door' for one in sys.meta_path))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    recorded = run_recorded([sys.executable, "-c", parent], tmp_path, tmp_path / "spool")
    assert recorded == (0, "True\n", "")
    environment = {**PLAIN, "PYTHONPATH": str(SITE)}
    completed = subprocess.run(
        [sys.executable, "-c", child], env=environment, capture_output=True, text=True, check=False
    )
    assert (completed.stdout, completed.stderr) == ("False\n", "")


def test_a_broken_import_shows_the_users_traceback_alone(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import torch.optim.optimizer\n")
    (tmp_path / "torch" / "optim").mkdir()
    (tmp_path / "torch" / "optim" / "__init__.py").write_text("")
    (tmp_path / "torch" / "optim" / "optimizer.py").write_text("def f():\n    1 / 0\nf()\n")
    (tmp_path / "main.py").write_text("import torch\n")
    command = [sys.executable, "main.py"]
    plain = run_plain(command, tmp_path)
    assert "ZeroDivisionError" in plain.err
    assert run_recorded(command, tmp_path, tmp_path / "spool") == plain
