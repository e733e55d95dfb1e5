"""The command line as a user meets it: a process, its output, its exit code."""

import ctypes
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gapless import cli
from gapless.commands.heap import settle_heap
from tests.study import writing
from tests.waiting import hold_pipes


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"GAPLESS_CACHE": str(cwd / "cache"), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "gapless", *arguments],
        cwd=cwd,
        env={**os.environ, **settings, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writing.write(tmp_path / "trace.json", writing.training())
    return tmp_path


def test_open_prints_the_account(folder: Path) -> None:
    process = run("open", "trace.json", cwd=folder)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("gapless · 6 steps of 1.000 ms on NVIDIA Test")
    assert "\x1b" not in process.stdout
    assert run("open", "trace.json", cwd=folder).stdout == process.stdout  # from the cache


def test_json_is_alone_on_standard_output(folder: Path) -> None:
    process = run("open", "trace.json", "--json", cwd=folder)
    assert json.loads(process.stdout)["account"]["wall_ns"] == 6_000_000
    assert process.stdout.count("\n") == 1
    comparison = run("compare", "trace.json", "trace.json", "--json", cwd=folder)
    assert json.loads(comparison.stdout)["groups"][0]["a_ns"] > 0


def test_csv_and_markdown_are_printed(folder: Path) -> None:
    assert run("open", "trace.json", "--csv", "kernels", cwd=folder).stdout.startswith("name,dev")
    assert run("open", "trace.json", "--markdown", cwd=folder).stdout.startswith("**gapless")


@pytest.mark.parametrize(
    "options", [["--json", "--sort", "calls"], ["--csv", "kernels", "--leaf", "idle"]]
)
def test_what_a_form_cannot_follow_is_refused(folder: Path, options: list[str]) -> None:
    process = run("open", "trace.json", *options, cwd=folder)
    assert (process.returncode, process.stdout) == (2, "")
    assert "gapless explain usage" in process.stderr


@pytest.mark.parametrize(("platform", "n_calls"), [("darwin", 0), ("linux", 1)])
def test_the_heap_is_settled_only_where_the_library_can(
    monkeypatch: pytest.MonkeyPatch, platform: str, n_calls: int
) -> None:
    opened_names: list[object] = []

    def library_without_mallopt(name: object) -> object:
        opened_names.append(name)
        return object()

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", library_without_mallopt)
    settle_heap()
    assert len(opened_names) == n_calls


def test_compare_prints_the_difference(folder: Path) -> None:
    process = run("compare", "trace.json", "trace.json", "--top", "3", cwd=folder)
    assert "a step of 1.000 ms became 1.000 ms: 1.00× as fast" in process.stdout
    assert "kernels: no change" in process.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["open", "gone.json"], "(gapless explain not-found)"),
        (["open", "no.txt"], "(gapless explain not-a-trace)"),
        (["open", "trace.json", "--steps", "x"], "steps 'x' is no selection"),
        (["open", "trace.json", "--rank", "7"], "there is no rank 7"),
        (["open", "trace.json", "--csv", "x"], "there is no table 'x'"),
        (["open", "trace.json", "--sort", "x"], "tables cannot be sorted by 'x'"),
        (["open", "trace.json", "--leaf", "x"], "no leaf begins with 'x'"),
        (["open", "trace.json", "--top", "0"], "'0' is not a positive number"),
        (["open", "trace.json", "--json", "--markdown"], "not allowed with"),
        (["open", "trace.json", "--json", "--csv", "kernels"], "not allowed with"),
        (["open", ""], "a path is empty"),
        (["open", "-"], "standard input: the file is empty"),
        (["compare", "trace.json", "trace.json", "--markdown"], "--markdown"),
        (["compare", "trace.json", "trace.json", "--sort", "calls"], "--sort"),
        (["open", "trace.json", "--nonsense"], "--nonsense"),
        (["open"], "PATH"),
        (["opne", "trace.json"], "did you mean 'open'?"),
        (["trace.json"], "to open it: gapless open trace.json"),
        (["frobnicate"], "there are: run, "),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    folder: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "no.txt").write_text("nothing of the kind")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GAPLESS_CACHE", str(folder / "cache"))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "gapless explain " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "holds no proven fixes"),
        ("null", "is no JSON document of that kind"),
        ("[1]", "holds no edits: Expected `object`, got `int`"),
        ('[{"kind": "magic"}]', "Invalid value 'magic'"),
        ("[", "is no JSON document of that kind"),
    ],
)
def test_what_is_no_list_of_edits_is_laid_over_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    edits = tmp_path / "edits.json"
    edits.write_text(text)
    assert cli.main(["run", "--with", str(edits), "true"]) == 2
    assert message in capsys.readouterr().err


def test_a_file_in_which_nothing_is_proven_is_said_to_be_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = tmp_path / "edits.json"
    edits.write_text("[]")
    assert cli.main(["run", "--with", str(edits)]) == 2, "there is no command"
    assert f"{edits} holds no fix: the command runs as it is" in capsys.readouterr().err


def test_escapes_in_a_path_do_not_reach_the_terminal(folder: Path) -> None:
    process = run("open", "\x1b]0;owned\x07gone.json", cwd=folder)
    assert "\x1b" not in process.stderr
    assert "\x07" not in process.stderr
    assert process.returncode == 2


def test_help_and_version_are_printed(folder: Path) -> None:
    assert "gapless run python train.py" in run("--help", cwd=folder).stdout
    assert run(cwd=folder).stdout == run("--help", cwd=folder).stdout
    assert "--by-shape" in run("open", "--help", cwd=folder).stdout
    assert run("--version", cwd=folder).stdout.startswith("gapless 0.")


@pytest.mark.parametrize("command", [None, *cli.COMMANDS])
def test_help_fits_a_narrow_terminal(
    command: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but command lines: those are broken nowhere, to be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main(["--help"] if command is None else [command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("  gapless")] == []
    if command is None:
        assert not any(line.startswith(" " * 14) for line in lines)  # one line for each command


def test_the_first_screen_fits_sixty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.main([]) == 0
    output = capsys.readouterr().out
    assert [line for line in output.splitlines() if len(line) > 60] == []
    assert "  gapless demo\n      what it finds" in output


@pytest.mark.parametrize("command", ["try", "tune"])
def test_without_a_run_a_command_of_its_own_is_offered(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([command]) == 2
    assert f"gapless {command} -- python train.py" in capsys.readouterr().err


def test_help_imports_nothing_heavy(folder: Path) -> None:
    script = (
        "import sys; from gapless.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = 'numpy', 'rich', 'msgspec', 'gapless.study', 'inspect', 'shutil', 'tempfile'\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m gapless open trace.json --no-cache | true"
    process = subprocess.run(
        ["/bin/bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stderr == ""
    assert process.stdout.strip() in {"0", "141"}  # 0: all was written before the reader left


def test_writing_into_a_closed_pipe_ends_with_141(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        process = subprocess.run(
            [sys.executable, "-m", "gapless", "open", "trace.json", "--no-cache"],
            cwd=folder,
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (process.returncode, process.stderr) == (141, b"")


def test_ctrl_c_ends_quietly_with_130(folder: Path) -> None:
    os.mkfifo(folder / "slow.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "gapless", "open", "slow.json", "--no-cache"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with hold_pipes(folder / "slow.json"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (130, b"", b"")


def run_on_terminal(folder: Path, **environment: str) -> str:
    """Run with standard output and error on a pseudo-terminal of 80 columns."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gapless", "open", "trace.json", "--no-cache"],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    output = b""
    while True:
        try:
            chunk = os.read(controller, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        output += chunk
    process.wait(240)
    os.close(controller)
    assert process.returncode == 0
    return output.decode()


def test_a_terminal_gets_colours_and_progress_that_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = run_on_terminal(folder)
    assert "\x1b[32m" in text  # green: compute
    assert "\r\x1b[Kreading …" in text
    assert text.index("reading …") < text.index("accounting …") < text.index("gapless ·")


def test_no_color_is_followed(folder: Path) -> None:
    text = run_on_terminal(folder, NO_COLOR="1")
    assert "\x1b[32m" not in text
    assert "where a step goes" in text


def test_a_mistake_of_our_own_is_one_line_and_exit_code_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.delenv("GAPLESS_DEBUG", raising=False)
    monkeypatch.setattr("gapless.study.open_study", None)
    path = str(folder / "trace.json")
    assert cli.main(["open", path]) == 70
    assert "this is a mistake of gapless" in capsys.readouterr().err
    monkeypatch.setenv("GAPLESS_DEBUG", "1")
    with pytest.raises(TypeError):
        cli.main(["open", path])


def test_every_option_reaches_the_study(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAPLESS_CACHE", str(folder / "cache"))
    path = str(folder / "trace.json")
    assert cli.main(["open", path, "--by-shape", "--steps", "3-4", "--width", "120"]) == 0
    text = capsys.readouterr().out
    assert "2 steps" in text
    assert "aten::linear [64, 128] [256, 128]" in text
    assert cli.main(["open", path, "--leaf", "idle.host", "--top", "1"]) == 0
    assert "the longest:" in capsys.readouterr().out
    assert cli.main(["open", path, "--leaf", "idle.host", "--markdown"]) == 0
    assert "the longest:" in capsys.readouterr().out
    assert cli.main(["open", path, "--sort", "self-host"]) == 0  # as the help says, and the titles
    assert "aten::linear" in capsys.readouterr().out
    for form in (["--json"], ["--markdown"], ["--csv", "operators"]):
        assert cli.main(["open", path, *form]) == 0
        assert "aten::linear" in capsys.readouterr().out
    assert cli.main(["compare", path, path]) == 0
    assert cli.main(["compare", path, path, "--json"]) == 0
    assert cli.main([]) == 0
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])


def test_interrupts_and_closed_pipes_are_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)
    assert cli.main([]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("redirection", "code"), [(">&-", 0), ("2>&-", 0), ("<&-", 2), (">/dev/full", 2)]
)
def test_closed_and_full_streams_are_no_mistake_of_ours(
    folder: Path, redirection: str, code: int
) -> None:
    path = "-" if redirection == "<&-" else "trace.json"
    command = f"'{sys.executable}' -m gapless open --no-cache {path} {redirection}"
    process = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, capture_output=True, check=False
    )
    assert process.returncode == code
    assert process.stderr.count(b"\n") == (0 if code == 0 else 1)
    assert b"mistake of gapless" not in process.stderr


def test_a_pipe_of_the_shell_is_read(folder: Path) -> None:
    command = f"'{sys.executable}' -m gapless open --json <(cat trace.json)"
    process = subprocess.run(
        ["/bin/bash", "-c", command], cwd=folder, capture_output=True, check=True, timeout=240
    )
    assert json.loads(process.stdout)["run"]["paths"][0].startswith("/dev/fd/")


def test_the_width_is_that_of_columns_where_there_is_no_terminal(folder: Path) -> None:
    lines = run("open", "trace.json", cwd=folder, COLUMNS="50").stdout.splitlines()
    assert max(map(len, lines)) <= 50
    assert max(map(len, run("open", "trace.json", cwd=folder).stdout.splitlines())) > 50


def test_an_encoding_without_our_signs_gets_others_as_wide(folder: Path) -> None:
    ascii_page = run("open", "trace.json", "--full", cwd=folder, PYTHONIOENCODING="ascii").stdout
    utf8_page = run("open", "trace.json", "--full", cwd=folder).stdout
    assert ascii_page.startswith("gapless | ")
    assert "\\x" not in ascii_page
    pairs = list(zip(ascii_page.splitlines(), utf8_page.splitlines(), strict=True))
    assert len(pairs) > 20
    assert [len(a) for a, _ in pairs if "#" not in a] == [len(b) for a, b in pairs if "#" not in a]


def test_a_folder_that_was_removed_is_named_as_the_reason(tmp_path: Path) -> None:
    script = f'rmdir "$PWD"; exec "{sys.executable}" -m gapless runs'
    process = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert "the folder that this shell is in was removed" in process.stderr
