"""The rules of CONTRIBUTING.md that no linter knows. Each test lists every offender at once."""

import ast
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
LONGEST_FILE: Final = 340  # lines
LONGEST_FUNCTION: Final = 30  # statements
LARGEST_FILE: Final = 1_000_000  # bytes
LARGEST_TREE: Final = 25_000_000  # bytes of all tracked files together
RECORDS: Final = ("tests/zoo/records/", "tests/strangers/records/")
HEAVIEST_RECORDS: Final = 15_000_000  # bytes of all together
EMPTY_NAMES: Final = {"utils", "util", "common", "helpers", "base", "manager", "handler", "core"}
BASES: Final = {
    "Exception",
    "GaplessError",
    "UsageError",  # of a trial's budget: tune goes on without that trial
    "StrEnum",
    "IntEnum",
    "Protocol",
    "NamedTuple",
}
BASES_OF_LIBRARIES: Final = {
    "JpegImageFile",
    "Action",
    "Struct",
    "FileIO",
    "FunctionProxy",
    "Dataset",  # torch's
    "ForkingPickler",
    "Unpickler",
    "Tensor",
    "Image",  # of Pillow
    "App",
    "ModalScreen",
    "TBPlugin",
    "ThreadingHTTPServer",
    "BaseHTTPRequestHandler",
    "Callback",  # Lightning's
    "TrainerCallback",  # of Transformers
    "GeneralTracker",  # Accelerate's
}  # FunctionProxy: for another; App and ModalScreen: Textual's; TBPlugin: TensorBoard's
CATCH_ALL: Final = {"Exception", "BaseException"}
MAY_CATCH_ALL: Final = {
    "src/gapless/cli.py",
    "src/gapless/launch/unobserved.py",
    "src/gapless/remote/files.py",  # a file system may raise anything: it is said with its URL
    "src/gapless/packer/session.py",  # the user's data set may raise anything: it is an answer
    "src/gapless/parts/device_prefetcher.py",  # raised later, where its batch would have come
    "src/gapless/probe/session.py",  # whatever a measurement fails with is why there is none
}
# Values are msgspec's structs, to which functions of ``dataclasses`` do not apply, and pyright does
# not see that. Dataclasses are left where msgspec must not be imported, or for ``init=False``.
HAVE_DATACLASSES: Final = {
    "src/gapless/commands/recording.py",  # replaces a field of a RunSpec
    "src/gapless/launch/environment.py",
    "src/gapless/launch/process.py",
    "src/gapless/launch/run/running.py",
    "src/gapless/launch/run_spec.py",
    "src/gapless/launch/signal_witness.py",
    "src/gapless/launch/unobserved.py",
    "src/gapless/live/outside/attaching.py",
    "src/gapless/live/outside/stack_looks.py",
    "src/gapless/live/watching.py",
    "src/gapless/parts/batches.py",
    "src/gapless/parts/device_prefetcher.py",
    "src/gapless/payload/overlay/wraps/autocast.py",
}
IN_USERS_PROCESS: Final = "src/gapless/payload/"  # its border to the user's code is everywhere
# What must not leak: folders of one machine, addresses of a package index, keys.
LEAKS: Final = re.compile(
    r"(?<![\w.:/~*-])/(?:work|root|home/\w+|farm|Users/\w+|mnt/\w+)/"
    r"|(?:extra-|-)index-url|--find-links|\bpypi\.\w+\.(?:com|net|io)\b"
    r"|BEGIN (?:RSA |OPENSSH )?PRIVATE KEY|\bghp_\w{20}|\bAKIA[0-9A-Z]{16}"
)
BINARY: Final = {".columns", ".gz", ".zst", ".npy", ".png", ".log"}


def relative_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SOURCES: Final = {
    relative_name(path): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src").rglob("*.py"))
    if "demo" not in path.parts  # a training as its users write theirs
}
Nodes = list[tuple[str, ast.AST]]


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    return [(name, node) for name, text in SOURCES.items() for node in ast.walk(ast.parse(text))]


def tracked_files() -> dict[str, Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607  git is where its user has it
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = {name: ROOT / name for name in listed.stdout.split("\0") if name}
    return {name: path for name, path in paths.items() if path.is_file()}


def test_no_file_is_longer_than_340_lines() -> None:
    lengths = {name: len(text.splitlines()) for name, text in SOURCES.items()}
    assert {name: count for name, count in lengths.items() if count > LONGEST_FILE} == {}


def test_no_function_has_more_than_30_statements(nodes: Nodes) -> None:
    long = {
        f"{name}: {node.name}": statements(node)
        for name, node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and statements(node) > LONGEST_FUNCTION
    }
    assert long == {}


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1


def test_statements_are_counted_at_every_depth() -> None:
    (function,) = ast.parse("def f():\n  if a:\n    b = 1\n  return b").body
    assert isinstance(function, ast.FunctionDef)
    assert statements(function) == 3


def test_no_name_says_nothing() -> None:
    empty = [name for name in SOURCES if EMPTY_NAMES & {*Path(name).parts, Path(name).stem}]
    assert empty == []


def test_classes_inherit_only_what_the_rules_name(nodes: Nodes) -> None:
    strange = [
        f"{name}: {node.name}({ast.unparse(base)})"
        for name, node in nodes
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if ast.unparse(base).rpartition(".")[2].partition("[")[0] not in BASES | BASES_OF_LIBRARIES
    ]
    assert strange == []


def test_values_are_structs(nodes: Nodes) -> None:
    having = {
        name
        for name, node in nodes
        if (isinstance(node, ast.ImportFrom) and node.module == "dataclasses")
        or (isinstance(node, ast.Import) and any(name.name == "dataclasses" for name in node.names))
    }
    assert having == HAVE_DATACLASSES


def test_only_the_command_line_catches_everything(nodes: Nodes) -> None:
    caught = {
        name
        for name, node in nodes
        if isinstance(node, ast.ExceptHandler) and swallows_everything(node)
    }
    assert {name for name in caught if not name.startswith(IN_USERS_PROCESS)} <= MAY_CATCH_ALL


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    last_statement = handler.body[-1]
    if isinstance(last_statement, ast.Raise) and last_statement.exc is None:
        return False  # cleans up and passes it on
    return handler.type is None or ast.unparse(handler.type) in CATCH_ALL


@pytest.mark.parametrize(
    ("handler", "swallows"),
    [
        ("except Exception:\n  pass", True),
        ("except:\n  f()", True),
        ("except BaseException:\n  f()\n  raise", False),
        ("except ValueError:\n  pass", False),
    ],
)
def test_handlers_that_swallow_are_recognised(handler: str, swallows: bool) -> None:
    (node,) = ast.parse(f"try:\n  f()\n{handler}").body
    assert isinstance(node, ast.Try)
    assert swallows_everything(node.handlers[0]) is swallows


def test_nothing_of_one_machine_leaks_into_the_repository() -> None:
    leaks = {
        name: leak.group()
        for name, path in tracked_files().items()
        if path.suffix not in BINARY and path != Path(__file__)
        for leak in LEAKS.finditer(path.read_text(encoding="utf-8"))
    }
    assert leaks == {}


def test_no_tracked_file_is_large() -> None:
    sizes = {name: path.stat().st_size for name, path in tracked_files().items()}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FILE} == {}


def test_the_tree_is_light() -> None:
    """Traces that are not for the reader's tests are packed columns (tests/traces.py)."""
    assert sum(path.stat().st_size for path in tracked_files().values()) <= LARGEST_TREE


def test_the_records_are_light() -> None:
    """Their windows are packed columns (benchmarks/pack_records.py); as JSON they took 72 MB."""
    sizes = [
        path.stat().st_size
        for name, path in tracked_files().items()
        if name.startswith(RECORDS) and path.name == "run.tar.zst"
    ]
    assert sizes
    assert sum(sizes) <= HEAVIEST_RECORDS


@pytest.mark.parametrize(
    "text", ["cd /work/thing", "open('/root/.cache/x')", "pip --extra-index-url file:///opt/simple"]
)
def test_leaks_are_recognised(text: str) -> None:
    assert LEAKS.search(text)


@pytest.mark.parametrize("text", ["src/work/x", "https://host/root/x", "docs/home/me/x"])
def test_what_is_no_leak_is_let_pass(text: str) -> None:
    assert not LEAKS.search(text)
