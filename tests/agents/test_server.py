"""The server, spoken to as a client does; what its tools read is the run kept with the tests."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from gapless import cli
from gapless.agents import processes, tools
from gapless.agents.confinement import confine
from gapless.agents.messages import MAX_LINE
from gapless.agents.processes import CancelledError, ToolCall
from gapless.agents.server import AgentServer
from gapless.agents.tools import AgentRights
from gapless.errors import GaplessError
from gapless.store.run.unpack import unpack
from tests.house.test_commands_stood_in import commands as commands_of_docs
from tests.traces import RECORDED_RUN

RUN: Final = RECORDED_RUN.name.partition(".")[0]
STUDY: Final = {
    "run": {"id": RUN},
    "verdict": {"sentence": "it waits"},
    "findings": [{"code": "G101"}],
    "account": {"wall_ns": 9, "rows": [1]},
    "tables": {"operators": [1] * 9},
}
DIFF: Final[dict[str, object]] = {
    "files": [{"path": "train.py", "diff": "-a\n+b\n"}],
    "applied": False,
}


class Client:
    """Sends messages all at once and keeps the answers."""

    def __init__(self, rights: AgentRights) -> None:
        self.rights = rights

    def send(self, *messages: object) -> list[dict[str, Any]]:
        output = io.BytesIO()
        lines = [
            message if isinstance(message, bytes) else json.dumps(message).encode()
            for message in messages
        ]
        AgentServer(self.rights, output).serve(Slowly([line + b"\n" for line in lines]))
        return [json.loads(line) for line in output.getvalue().splitlines()]

    def call(self, name: str, **arguments: object) -> dict[str, Any]:
        (answer,) = self.send(request("tools/call", {"name": name, "arguments": arguments}))
        return answer.get("result") or answer["error"]


class Slowly(io.BytesIO):
    """Input whose end comes when no thread of the server is left: a client that waits."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        super().__init__(b"".join(lines))

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line:
            for thread in threading.enumerate():
                if "_call" in thread.name:
                    thread.join()
        return line


def request(method: str, params: object = None, number: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a run that was made in it."""
    folder = tmp_path / "project"
    home = folder / ".gapless/runs"
    shutil.rmtree(unpack(RECORDED_RUN, home) / "windows")
    manifest = json.loads((home / RUN / "run.json").read_text())
    (home / RUN / "run.json").write_text(json.dumps(manifest | {"folder": str(folder)}))
    return folder


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Return the commands that tools have run; what they print is made up."""
    words_of_commands: list[list[str]] = []

    def run_command(words: Sequence[str], folder: Path, timeout_s: float, call: ToolCall) -> str:
        assert folder.is_dir()
        assert timeout_s > 0
        call.report(1.0)
        words_of_commands.append(list(words))
        if "--json" not in words:
            return "text"
        return json.dumps({"fix": DIFF, "runs": {"runs": []}}.get(words[0], STUDY))

    monkeypatch.setattr(tools, "run_command", run_command)
    return words_of_commands  # pyright: ignore[reportReturnType]


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def test_a_session_begins_and_lists_its_tools(project: Path) -> None:
    client = Client(AgentRights(confine([project])))
    hello = request("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}}, 0)
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    first, ping, listed = client.send(
        hello, ready, request("ping"), request("tools/list", None, "b")
    )
    assert first["result"]["protocolVersion"] == "2025-03-26"
    assert first["result"]["serverInfo"]["name"] == "gapless"
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert listed["id"] == "b"
    offered = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert set(offered) == {"runs", "account", "findings", "report", "explain", "fix"}
    assert all(tool["annotations"]["readOnlyHint"] for tool in offered.values())
    assert "apply" not in offered["fix"]["inputSchema"]["properties"]
    (newer,) = client.send(request("initialize", {"protocolVersion": "2099-01-01"}))
    assert newer["result"]["protocolVersion"] == "2025-06-18"


def test_rights_add_tools(project: Path) -> None:
    client = Client(AgentRights(confine([project]), trials=True, writes=True))
    (listed,) = client.send(request("tools/list"))
    offered = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert not offered["try"]["annotations"]["readOnlyHint"]
    assert offered["fix"]["annotations"]["destructiveHint"]
    assert "apply" in offered["fix"]["inputSchema"]["properties"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"[1]", -32600),
        (b'{"id": 1, "method": 3}', -32600),
        (b'{"id": [], "method": "ping"}', -32600),
        (b'{"id": 1, "method": "ping", "params": []}', -32600),
        (b'"' + b"x" * (2 * MAX_LINE + 5) + b'"', -32600),
        (request("tools/other"), -32601),
        (request("tools/call", {"name": "rm"}), -32602),
        (request("tools/call", {"name": "runs", "arguments": [1]}), -32602),
    ],
)
def test_rubbish_is_refused_and_the_session_goes_on(
    project: Path, message: object, code: int
) -> None:
    refused, ping = Client(AgentRights(confine([project]))).send(message, request("ping", None, 9))
    assert refused["error"]["code"] == code
    assert ping["id"] == 9


def test_messages_of_a_batch_are_answered_one_by_one(project: Path) -> None:
    batch = [request("ping", None, 1), {"method": "notifications/other"}, request("ping", None, 2)]
    answers = Client(AgentRights(confine([project]))).send(batch)
    assert [answer["id"] for answer in answers] == [1, 2]


def test_answers_and_unknown_notifications_are_passed_over(project: Path) -> None:
    messages: tuple[object, ...] = (
        {"id": 4, "result": {}},
        {"method": "notifications/other"},
        {"method": "ping"},
    )
    assert Client(AgentRights(confine([project]))).send(*messages) == []


def test_tools_answer_with_what_matters(project: Path, commands: list[list[str]]) -> None:
    client = Client(AgentRights(confine([project])))
    account = json.loads(text_of(client.call("account")))
    assert account == {
        "run": {"id": RUN},
        "verdict": {"sentence": "it waits"},
        "account": {"wall_ns": 9},
    }
    findings = json.loads(text_of(client.call("findings", run="2026-11-21")))
    assert findings["findings"] == [{"code": "G101"}]
    assert "tables" not in findings
    run = str(project / ".gapless/runs" / RUN)
    assert commands == [["report", run, "--json"]] * 2
    assert text_of(client.call("report", sections=["loaders"])) == "text"
    assert commands[-1] == ["report", run, "--section", "loaders"]
    assert json.loads(text_of(client.call("fix", fixes=["foreach"]))) == DIFF
    assert commands[-1][:2] == ["fix", run]
    assert "--apply" not in commands[-1]


def test_nothing_is_applied_without_the_right(project: Path, commands: list[list[str]]) -> None:
    refused = Client(AgentRights(confine([project]))).call("fix", apply=True)
    assert refused["isError"]
    assert "there is no argument 'apply'" in text_of(refused)
    assert commands == []
    Client(AgentRights(confine([project]), writes=True)).call("fix", apply=True)
    assert ["--apply" in words for words in commands] == [False, True]


def test_trials_are_bounded(project: Path, commands: list[list[str]]) -> None:
    assert "code" in Client(AgentRights(confine([project]))).call("try")
    client = Client(AgentRights(confine([project]), trials=True))
    for seconds in (999_999, 10**400):
        client.call("try", fixes=["foreach"], seconds=seconds)
        assert commands[-1][-4:] == ["--budget", "1800s", "--fix", "foreach"]
    assert "--yes" not in commands[-1]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("account", {"run": 3}),
        ("account", {"run": "--version"}),
        ("account", {"run": "a\0b"}),
        ("account", {"run": "x" * 5000}),
        ("try", {"fixes": ["\ud800"]}),
        ("account", {"run": "last", "trace": "x.json"}),
        ("report", {"sections": ["-x"]}),
        ("report", {"sections": ["x"] * 60}),
        ("explain", {}),
        ("try", {"seconds": -1}),
        ("try", {"seconds": True}),
        ("findings", {"other": 1}),
    ],
)
def test_wrong_arguments_are_refused(
    project: Path, commands: list[list[str]], tool: str, arguments: dict[str, Any]
) -> None:
    (project / "x.json").touch()
    result = Client(AgentRights(confine([project]), trials=True)).call(tool, **arguments)
    assert result["isError"]
    assert commands == []


def test_nothing_outside_the_roots_is_read(project: Path, commands: list[list[str]]) -> None:
    outside = project.parent / "outside"
    shutil.move(project / ".gapless/runs" / RUN, outside)
    (project / "link").symlink_to(outside)
    (project / ".gapless/runs/2027-run").symlink_to(outside)
    (project / "trace.json").symlink_to(outside / "run.json")
    client = Client(AgentRights(confine([project])))
    for arguments in (
        {"run": "../outside"},
        {"run": "./link"},
        {"run": "2027-run"},
        {"run": "last"},
        {"run": str(outside)},
        {"folder": ".."},
        {"folder": "link"},
        {"trace": "trace.json"},
        {"trace": "/etc/hostname"},
        {"trace": "*.json"},
    ):
        result = client.call("account", **arguments)
        assert result["isError"], arguments
        assert "not below" in text_of(result) or "no runs" in text_of(result), result
    assert client.call("runs", folder="..")["isError"]
    assert commands == []


def test_links_inside_a_run_lead_nowhere_else(project: Path, commands: list[list[str]]) -> None:
    run = project / ".gapless/runs" / RUN
    (project.parent / "secret").write_text("")
    (run / "windows").mkdir()
    (run / "windows/trace.json").symlink_to(project.parent / "secret")
    (run / "log").symlink_to("run.json")
    client = Client(AgentRights(confine([project])))
    for arguments in ({"run": RUN}, {"run": f"./.gapless/runs/{RUN}"}, {"trace": "./.gapless"}):
        result = client.call("account", **arguments)
        assert "leads out of" in text_of(result), result
    assert client.call("runs")["isError"]
    (run / "windows/trace.json").unlink()
    assert not client.call("account", run=RUN)["isError"]
    assert len(commands) == 1


def test_sources_outside_the_roots_are_not_shown(
    project: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(AgentRights(confine([project])))
    monkeypatch.setitem(DIFF, "files", [{"path": "/etc/x.py", "diff": "secret"}])
    monkeypatch.chdir(project)
    result = client.call("fix")
    assert result["isError"]
    assert "secret" not in text_of(result)
    manifest = project / ".gapless/runs" / RUN / "run.json"
    manifest.write_text(manifest.read_text().replace(str(project), "/etc"))
    assert "was made in /etc" in text_of(client.call("fix"))
    assert len(commands) == 1


def test_progress_is_told_to_who_asks(project: Path, commands: list[list[str]]) -> None:
    params = {"name": "runs", "_meta": {"progressToken": "t"}}
    told, _ = Client(AgentRights(confine([project]))).send(request("tools/call", params))
    assert told["method"] == "notifications/progress"
    assert told["params"]["progressToken"] == "t"
    assert len(commands) == 1


def test_a_call_can_be_cancelled(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_command(*_: object) -> str:
        call = _[3]
        assert isinstance(call, ToolCall)
        assert call.is_cancelled.wait(20)
        raise CancelledError("cancelled")

    monkeypatch.setattr(tools, "run_command", run_command)
    messages = (
        request("tools/call", {"name": "runs"}, 5),
        {"method": "notifications/cancelled", "params": {"requestId": 5}},
    )
    assert Client(AgentRights(confine([project]))).send(*messages) == []


def pass_over(_: object) -> None:
    """Print nothing of what a thread raised."""


def test_a_mistake_of_ours_is_an_answer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_command(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(tools, "run_command", run_command)
    monkeypatch.setattr(threading, "excepthook", pass_over)
    (answer,) = Client(AgentRights(confine([project]))).send(
        request("tools/call", {"name": "runs"})
    )
    assert answer["error"]["code"] == -32603


def test_a_command_is_run_and_its_error_told(project: Path) -> None:
    call = ToolCall(threading.Event(), lambda _: None)
    assert "G102" in processes.run_command(["explain", "G102"], project, 60, call)
    with pytest.raises(GaplessError, match="there are no runs"):
        processes.run_command(["report", "last"], project.parent, 60, call)


def test_a_command_that_goes_on_is_ended(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\ntrap '' INT\necho $$ > {tmp_path}/pid\nsleep 60\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(processes, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    call = ToolCall(threading.Event(), lambda _: None)
    with pytest.raises(CancelledError, match="longer than 1 s"):
        processes.run_command(["try"], project, 1.0, call)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("command", commands_of_docs("mcp"))
def test_commands_of_the_docs_serve(
    command: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: Any,  # noqa: ANN401
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Slowly([b'{"id": 1, "method": "ping"}'])))
    for folder in ("/my/project", "/shared/runs"):
        command = command.replace(folder, str(project))
    assert cli.main(command.split()[1:]) == 0
    assert json.loads(capfdbinary.readouterr().out)["id"] == 1


def test_the_example_is_a_client(project: Path) -> None:
    example = Path(__file__).parents[2] / "examples/ask_by_mcp.py"
    command = [sys.executable, example, str(project)]
    client = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    first, verdict, cause, helps = client.stdout.splitlines()[:4]
    assert first == "tools: runs account findings report explain fix"
    assert "loading data" in verdict
    assert cause.startswith("G101 ")
    assert "more-workers" in helps


@pytest.mark.slow
def test_the_client_of_the_protocol_s_own_library_speaks_with_it(project: Path) -> None:
    """Where that is installed (pip install mcp): the server itself needs no package."""
    pytest.importorskip("mcp")
    script = f"""
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    words = ["-m", "gapless", "mcp", "--root", {str(project)!r}]
    import os
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        hello = await session.initialize()
        tools = await session.list_tools()
        seen = []
        async def note(progress, total, message):
            seen.append(message)
        answer = await session.call_tool("findings", {{"run": "last"}}, progress_callback=note)
        wrong = await session.call_tool("account", {{"run": "../.."}})
        first, good, bad = (value.model_dump(by_alias=True) for value in (hello, answer, wrong))
        print(first["serverInfo"]["name"], len(tools.tools), good["isError"], bad["isError"])
        assert "G101" in answer.content[0].text
        assert seen

asyncio.run(main())
"""
    client = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert client.stdout.split() == ["gapless", "6", "False", "True"], client.stderr
