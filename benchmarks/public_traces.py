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

HERE = Path(__file__).parent
LIST = HERE / "public_traces.toml"
RESULT = HERE / "results" / "public_traces.json"


@dataclass(frozen=True)
class Entry:
    """A public trace (a file with its hash) or a folder of them (without one)."""

    address: str
    note: str
    sha256: str | None = None
    bytes: int | None = None

    @property
    def place(self) -> str:
        """Give the path below the folder: owner/repository/commit/path."""
        owner, repository, _, rest = self.address.removeprefix("https://github.com/").split("/", 3)
        return f"{owner}/{repository}/{rest}"

    @property
    def raw(self) -> str:
        """Give the address of the bytes themselves."""
        return self.address.replace("/blob/", "/raw/")


@dataclass(frozen=True)
class Opened:
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


def entries() -> tuple[Entry, ...]:
    """Read the list: files first, then folders."""
    found = tomllib.loads(LIST.read_text())
    return tuple(Entry(**one) for kind in ("trace", "folder") for one in found[kind])


def mismatch(entry: Entry, path: Path) -> str | None:
    """Say what is wrong with the file as it lies here, before it is opened."""
    if not path.exists():
        return "not there"
    if entry.sha256 is None:
        return None
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    return None if found == entry.sha256 else f"other bytes (SHA-256 {found[:12]}…)"


def imbalance(account: Account) -> str | None:
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
    for what, parts, whole in sums:
        if sum(parts.values()) != whole or min(parts.values(), default=0) < 0:
            return f"{what} sum to {sum(parts.values())} of {whole} ns"
    rows = sum(row.row.end - row.row.start for row in account.rows)
    return None if rows == account.wall_ns else f"rows sum to {rows} of {account.wall_ns} ns"


def told(entry: Entry, study: Study, seconds: float) -> Opened:
    """Take the figures of the table out of a study."""
    account, health = study.account, study.health
    unknown = account.groups.get("unknown", 0)
    return Opened(
        address=entry.address,
        note=entry.note,
        seconds=round(seconds, 3),
        problem=imbalance(account),
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


def opened(entry: Entry, folder: Path) -> Opened:
    """Open one entry, past the cache. What gapless refuses is a problem; else it is let through."""
    path = folder / entry.place
    wrong = mismatch(entry, path)
    if wrong:
        return Opened(entry.address, entry.note, 0.0, wrong)
    begun = time.perf_counter()
    try:
        study = gapless.open(path, cache=False)
    except gapless.GaplessError as error:
        seconds = round(time.perf_counter() - begun, 3)
        return Opened(entry.address, entry.note, seconds, f"{error.slug}: {error}")
    return told(entry, study, time.perf_counter() - begun)


def percent(share: float | None) -> str:
    """Write a share, or a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def line(found: Opened, number: int) -> str:
    """Write one row of the Markdown table."""
    parts = found.address.removeprefix("https://github.com/").split("/")
    place = parts[4:] if len(parts[4:]) < 3 else parts[-2:]  # noqa: PLR2004 - folder and file
    name = f"[{parts[0]}: {'/'.join(place)}]({found.address})"
    if found.wall_ns is None:
        return f"| {number} | {name} | {found.note} | {found.problem} |" + " |" * 7
    cells = [
        str(number),
        name,
        found.note,
        "–" if found.steps is None else str(found.steps),
        f"{found.wall_ns / 1e6:,.3f}",
        percent(found.unknown),
        percent(found.launches_recorded),
        f"{(found.clock_error_ns or 0) / 1e3:.1f}",
        str(found.dropped),
        f"{found.repaired}{' (cut)' if found.truncated else ''}",
        f"{found.seconds:.2f}{f' {found.problem}' if found.problem else ''}",
    ]
    return f"| {' | '.join(cells)} |"


def table(results: list[Opened]) -> str:
    """Write the Markdown table."""
    head = (
        "| | trace | what it is | steps | wall ms | unknown | launches recorded | clock error µs "
        "| dropped | repaired | s |\n|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    return "\n".join([head, *(line(one, number) for number, one in enumerate(results, 1))])


def measure(folder: Path) -> int:
    """Open all, write the result, print the table; give the number of problems."""
    results = [opened(entry, folder) for entry in entries()]
    problems = [one for one in results if one.problem]
    RESULT.parent.mkdir(exist_ok=True)
    document = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "entries": len(results),
        "problems": len(problems),
        "results": [asdict(one) for one in results],
    }
    RESULT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(table(results))
    print(f"\n{len(results) - len(problems)} of {len(results)} open and sum.")
    for one in problems:
        print(f"- {one.address}: {one.problem}")
    return len(problems)


def main() -> int:
    """Measure, or list the addresses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the traces lie")
    parser.add_argument("--addresses", action="store_true", help="print address and place of each")
    options = parser.parse_args()
    if options.addresses:
        print("\n".join(f"{one.raw}\t{one.place}" for one in entries() if one.sha256))
        return 0
    if options.folder is None:
        parser.error("--folder is needed")
    return 1 if measure(options.folder) else 0


if __name__ == "__main__":
    sys.exit(main())
