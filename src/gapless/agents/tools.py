"""The tools: what each is called, takes, and answers."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from gapless.agents.confinement import Confinement
from gapless.agents.parameters import FLAG, NUMBER, TEXT, TEXTS, Parameter
from gapless.agents.processes import ToolCall, run_command
from gapless.errors import UsageError

_READ_S: Final = 300.0  # that reading may take
_TRIAL_S: Final = 90.0  # of measuring, without a budget
_MAX_TRIAL_S: Final = 1800.0
_SPARE_S: Final = 300.0  # beyond the budget of a trial: arms begin within it
_LAST_RUN: Final = "last"
_RUN: Final = Parameter(
    "run", TEXT, "id, beginning of one, path of a run folder, or 'last' (the default)"
)
_FOLDER: Final = Parameter("folder", TEXT, "folder of runs (.gapless/runs)")
_TRACE: Final = Parameter("trace", TEXT, "in place of run: a trace that torch.profiler wrote")
_ACCOUNT_KEYS: Final = (
    "run", "verdict", "step", "step_account", "timeline", "account", "loaders", "health", "unseen"
)  # fmt: skip
_FINDING_KEYS: Final = (
    "run", "verdict", "step", "findings", "to_try", "present", "proposals", "outlook",
    "provisional", "abstentions",
)  # fmt: skip
Arguments = Mapping[str, Any]


class AgentRights(Struct, frozen=True):
    """What tools may do, and where."""

    confinement: Confinement
    trials: bool = False
    writes: bool = False


class AgentTool(Struct, frozen=True):
    """One tool."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    run: Callable[[Arguments, AgentRights, ToolCall], str]
    reads_only: bool = True


def list_tools(rights: AgentRights) -> tuple[AgentTool, ...]:
    """Return the tools that are there with these rights."""
    return (*_READING, *([_TRY] if rights.trials else []), _make_fix(rights))


def _list_runs(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    folder = rights.confinement.resolve_whole(arguments.get("folder", ".gapless/runs"))
    return _run(["runs", "list", "--json", "--in", str(folder)], rights, call)


def _read_account(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    document = _read_study(arguments, rights, call)
    for name in ("account", "step_account"):
        account: dict[str, Any] = document.get(name) or {}
        account.pop("rows", None)
    return _pick_members(document, _ACCOUNT_KEYS)


def _read_findings(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    return _pick_members(_read_study(arguments, rights, call), _FINDING_KEYS)


def _read_report(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    sections = [word for name in arguments.get("sections", ()) for word in ("--section", name)]
    return _run([*_subject(arguments, rights), *sections], rights, call)


def _explain(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    return _run(["explain", arguments["name"]], rights, call)


def _try_fixes(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    """Measure edits; refused where an arm would write outside a private view of its folder."""
    run = _find_run(arguments, rights)
    rights.confinement.check_source(run)
    budget_s = float(min(arguments.get("seconds", _TRIAL_S), _MAX_TRIAL_S))
    words = ["try", str(run), "--json", "--in", str(run.parent), "--budget", f"{budget_s:.0f}s"]
    words += ["--fix", *arguments["fixes"]] if arguments.get("fixes") else []
    document = json.loads(_run(words, rights, call, budget_s + _SPARE_S))
    return _pick_members(document, ("run", "trials", "proposals"))


def _draft_fix(arguments: Arguments, rights: AgentRights, call: ToolCall) -> str:
    """Return the diff of fixes; write it only where the server was started with that right."""
    run = _find_run(arguments, rights)
    rights.confinement.check_source(run)
    words = ["fix", str(run), "--json", "--in", str(run.parent)]
    words += ["--fix", *arguments["fixes"]] if arguments.get("fixes") else []
    words += ["--unproven"] if arguments.get("unproven") else []
    text = _run(words, rights, call)
    rights.confinement.check_paths(file["path"] for file in json.loads(text)["files"])
    if not arguments.get("apply"):
        return text
    if not rights.writes:
        raise UsageError("nothing is written here; gapless mcp --allow-writes would")
    return _run([*words, "--apply"], rights, call)


def _run(words: list[str], rights: AgentRights, call: ToolCall, timeout_s: float = _READ_S) -> str:
    return run_command(words, rights.confinement.roots[0], timeout_s, call)


def _find_run(arguments: Arguments, rights: AgentRights) -> Any:  # noqa: ANN401
    return rights.confinement.find_run(arguments.get("run", _LAST_RUN), arguments.get("folder"))


def _subject(arguments: Arguments, rights: AgentRights) -> list[str]:
    """Return the command that studies the run or the trace in question."""
    if arguments.get("trace") is None:
        return ["report", str(_find_run(arguments, rights))]
    if arguments.get("run") is not None:
        raise UsageError("name a run or a trace, not both")
    return ["open", str(rights.confinement.resolve_whole(arguments["trace"]))]


def _read_study(arguments: Arguments, rights: AgentRights, call: ToolCall) -> dict[str, Any]:
    return json.loads(_run([*_subject(arguments, rights), "--json"], rights, call))


def _pick_members(document: Arguments, keys: tuple[str, ...]) -> str:
    members = {key: document[key] for key in keys if document.get(key) not in (None, [], {})}
    return json.dumps(members, ensure_ascii=False)


_SUBJECT: Final = (_RUN, _FOLDER, _TRACE)
_FIXES: Final = Parameter("fixes", TEXTS, "names of fixes as findings have them: more-workers=4")
_READING: Final = (
    AgentTool("runs", "List the recorded runs of a folder, newest first.", (_FOLDER,), _list_runs),
    AgentTool(
        "account",
        "Where the time of each step and of the whole command went: nanoseconds by cause, which "
        "sum to the whole; loaders; how far the figures can be trusted.",
        _SUBJECT,
        _read_account,
    ),
    AgentTool(
        "findings",
        "Why steps take as long as they do: each cause with its line of source, what a step "
        "without it would be worth (a ratio with its interval), and the fixes that help.",
        _SUBJECT,
        _read_findings,
    ),
    AgentTool(
        "report",
        "The report as text: its first screen, or parts of it by name.",
        (
            *_SUBJECT,
            Parameter("sections", TEXTS, "causes, steps, loaders, ranks, calls, machine …"),
        ),
        _read_report,
    ),
    AgentTool(
        "explain",
        "Explain a cause (G102, too-few-workers), a fix (more-workers) or an error: how it is "
        "found, what helps, what it risks.",
        (Parameter("name", TEXT, "code or name", required=True),),
        _explain,
    ),
)
_TRY: Final = AgentTool(
    "try",
    "Measure what fixes are worth: the training is run briefly with and without each, in turns. "
    "Its source is not touched. Without fixes it tries what the report proposes.",
    (_RUN, _FOLDER, _FIXES, Parameter("seconds", NUMBER, "to measure (90; at most 1800)")),
    _try_fixes,
    reads_only=False,
)


def _make_fix(rights: AgentRights) -> AgentTool:
    unproven = Parameter("unproven", FLAG, "also what is proposed and was not measured")
    apply = Parameter("apply", FLAG, "write it; gapless fix --undo takes it back")
    return AgentTool(
        "fix",
        "Fixes as a diff of the training's source, those that trials have proven."
        + ("" if rights.writes else " Nothing is written."),
        (_RUN, _FOLDER, _FIXES, unproven, *([apply] if rights.writes else [])),
        _draft_fix,
        reads_only=not rights.writes,
    )
