"""Open every trace of ``public_traces.toml`` and show that each sums, with its health.

``python -m benchmarks.public_traces --folder FOLDER`` writes ``results/public_traces.json`` and
prints the table. The traces themselves are not kept here; ``--addresses`` tells where to get them.
"""

import argparse
import hashlib
import json
import sys
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import gapless
from benchmarks.machine import machine
from gapless.model.account import Account
from gapless.model.study import Study

FOLDER = Path(__file__).parent
LIST = FOLDER / "public_traces.toml"
RESULT = FOLDER / "results" / "public_traces.json"


@dataclass(frozen=True)
class Entry:
    """A public trace (a file with its hash) or a folder of them (without one)."""

    address: str
    note: str
    sha256: str | None = None
    bytes: int | None = None

    @property
    def relative_path(self) -> str:
        """Return the path below the folder: owner/repository/commit/path."""
        owner, repository, _, tail = self.address.removeprefix("https://github.com/").split("/", 3)
        return f"{owner}/{repository}/{tail}"

    @property
    def raw(self) -> str:
        """Return the address of the bytes themselves."""
        return self.address.replace("/blob/", "/raw/")


@dataclass(frozen=True)
class OpenedEntry:
    """What opening one entry gave; ``problem`` says what went wrong, if anything."""

    address: str
    note: str
    seconds: float
    problem: str | None = None
    events: int | None = None
    ranks: int | None = None
    steps: int | None = None
    wall_ns: int | None = None
    unknown: float | None = None  # share of the wall time
    launches_recorded: float | None = None
    clock_error_ns: int | None = None
    dropped: int | None = None
    repaired: int | None = None
    truncated: bool | None = None


def read_entries() -> tuple[Entry, ...]:
    """Read the list: files first, then folders."""
    document = tomllib.loads(LIST.read_text())
    return tuple(Entry(**row) for kind in ("trace", "folder") for row in document[kind])


def find_mismatch(entry: Entry, path: Path) -> str | None:
    """Say what is wrong with the file as it lies here, before it is opened."""
    if not path.exists():
        return "not there"
    if entry.sha256 is None:
        return None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return None if digest == entry.sha256 else f"other bytes (SHA-256 {digest[:12]}…)"


def find_imbalance(account: Account) -> str | None:
    """Say where an account does not sum; ``None`` if it does, in total and in each row."""
    sums = [
        ("leaves", account.leaves, account.wall_ns),
        ("groups", account.groups, account.wall_ns),
    ]
    for row in (*account.rows, *account.left_out):
        length = row.row.end - row.row.start
        sums += [("a row's leaves", row.leaves, length), ("a row's groups", row.groups, length)]
    for group, parts in account.parts.items():
        sums.append((f"the parts of {group}", parts, account.groups[group]))
    for label, parts, total_ns in sums:
        if sum(parts.values()) != total_ns or min(parts.values(), default=0) < 0:
            return f"{label} sum to {sum(parts.values())} of {total_ns} ns"
    rows = sum(row.row.end - row.row.start for row in account.rows)
    return None if rows == account.wall_ns else f"rows sum to {rows} of {account.wall_ns} ns"


def entry_figures(entry: Entry, study: Study, seconds: float) -> OpenedEntry:
    """Take the figures of the table out of a study."""
    account, health = study.account, study.health
    unknown = account.groups.get("unknown", 0)
    return OpenedEntry(
        address=entry.address,
        note=entry.note,
        seconds=round(seconds, 3),
        problem=find_imbalance(account),
        events=health.events,
        ranks=len(study.run.paths),
        steps=account.steps,
        wall_ns=account.wall_ns,
        unknown=unknown / account.wall_ns if account.wall_ns else None,
        launches_recorded=health.launches_recorded,
        clock_error_ns=health.clock_error_ns,
        dropped=health.dropped,
        repaired=health.repaired,
        truncated=health.truncated,
    )


def open_entry(entry: Entry, folder: Path) -> OpenedEntry:
    """Open one entry, past the cache. What gapless refuses is a problem; else it is let through."""
    path = folder / entry.relative_path
    problem = find_mismatch(entry, path)
    if problem:
        return OpenedEntry(entry.address, entry.note, 0.0, problem)
    start_s = time.perf_counter()
    try:
        study = gapless.open(path, cache=False)
    except gapless.GaplessError as error:
        seconds = round(time.perf_counter() - start_s, 3)
        return OpenedEntry(entry.address, entry.note, seconds, f"{error.slug}: {error}")
    return entry_figures(entry, study, time.perf_counter() - start_s)


def format_percent(share: float | None) -> str:
    """Write a share, or a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def table_row(entry: OpenedEntry, number: int) -> str:
    """Write one row of the Markdown table."""
    parts = entry.address.removeprefix("https://github.com/").split("/")
    name_parts = parts[4:] if len(parts[4:]) < 3 else parts[-2:]  # noqa: PLR2004 - folder and file
    name = f"[{parts[0]}: {'/'.join(name_parts)}]({entry.address})"
    if entry.wall_ns is None:
        return f"| {number} | {name} | {entry.note} | {entry.problem} |" + " |" * 7
    cells = [
        str(number),
        name,
        entry.note,
        "–" if entry.steps is None else str(entry.steps),
        f"{entry.wall_ns / 1e6:,.3f}",
        format_percent(entry.unknown),
        format_percent(entry.launches_recorded),
        f"{(entry.clock_error_ns or 0) / 1e3:.1f}",
        str(entry.dropped),
        f"{entry.repaired}{' (cut)' if entry.truncated else ''}",
        f"{entry.seconds:.2f}{f' {entry.problem}' if entry.problem else ''}",
    ]
    return f"| {' | '.join(cells)} |"


def table(results: list[OpenedEntry]) -> str:
    """Write the Markdown table."""
    head = (
        "| | trace | what it is | steps | wall ms | unknown | launches recorded | clock error µs "
        "| dropped | repaired | s |\n|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    return "\n".join([head, *(table_row(entry, number) for number, entry in enumerate(results, 1))])


def measure_traces(folder: Path) -> int:
    """Open all, write the result, print the table; give the number of problems."""
    results = [open_entry(entry, folder) for entry in read_entries()]
    problems = [entry for entry in results if entry.problem]
    RESULT.parent.mkdir(exist_ok=True)
    document = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "entries": len(results),
        "problems": len(problems),
        "results": [asdict(entry) for entry in results],
    }
    RESULT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(table(results))
    print(f"\n{len(results) - len(problems)} of {len(results)} open and sum.")
    for entry in problems:
        print(f"- {entry.address}: {entry.problem}")
    return len(problems)


def main() -> int:
    """Measure, or list the addresses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the traces lie")
    parser.add_argument("--addresses", action="store_true", help="print address and place of each")
    options = parser.parse_args()
    if options.addresses:
        print(
            "\n".join(
                f"{entry.raw}\t{entry.relative_path}" for entry in read_entries() if entry.sha256
            )
        )
        return 0
    if options.folder is None:
        parser.error("--folder is needed")
    return 1 if measure_traces(options.folder) else 0


if __name__ == "__main__":
    sys.exit(main())
