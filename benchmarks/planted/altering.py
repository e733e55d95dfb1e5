"""What gapless' own fixes, and other settings, change in a script while it runs: for proofs.

They are proposed for a recording of the very script, as ``gapless try`` would.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.asking import check
from benchmarks.planted.running import REMOVED, Alteration, Lane, RunError
from benchmarks.planted.scripts import Script
from gapless.catalogue.declare.listing import propose_named
from gapless.errors import GaplessError
from gapless.model.edit import Edit, SetArgument, SetGlobal, edit_to_json
from gapless.model.facts import Facts
from gapless.recorded.facts import facts
from gapless.store.logs.logs import open_log, read_processes
from gapless.store.run.recordings import load

_REQUESTS: Final = {"no-workers": "more-workers=0"}  # what an answer calls by a name of its own
# What a person would set, whatever it means for results: shown is what it costs.
_SETTINGS: Final[Mapping[str, tuple[Edit, ...]]] = {
    "G211": (
        SetGlobal("torch.use_deterministic_algorithms", value=False),
        SetGlobal("torch.backends.cudnn.deterministic", value=False),
    ),
    "G501": (
        SetGlobal("torch.set_float32_matmul_precision", "high"),
        SetGlobal("torch.backends.cudnn.allow_tf32", value=True),
    ),
    "G511": (SetArgument("torch.nn.Embedding", "sparse", value=True),),
    "G518": (SetGlobal("torch.backends.cudnn.enabled", value=True),),
}

Edits = tuple[dict[str, Any], ...]


def record_facts(script: Script, root: Path, lane: Lane, seconds: float) -> Facts:
    """Check a script for some seconds, and return what was true of it. Raises ``RunError``."""
    runs = lane.folder / "facts"
    shutil.rmtree(runs, ignore_errors=True)
    try:
        check(script, root, lane, runs, seconds)
        return facts(load(next(path for path in sorted(runs.iterdir()) if path.is_dir())))
    except (GaplessError, StopIteration) as error:
        raise RunError(f"nothing could be proposed: {error}") from error
    finally:
        shutil.rmtree(runs, ignore_errors=True)


def propose_edits(fixes: Sequence[str], run_facts: Facts) -> Iterator[tuple[str, Edits]]:
    """Yield the edits of each fix that can be applied here, settings that carry meaning, too."""
    for fix in fixes:
        for proposal in propose_named(_REQUESTS.get(fix, fix), run_facts, override=True):
            if proposal.edits and proposal.refused is None:
                yield fix, tuple(map(edit_to_json, proposal.edits))
                break


def check_effects(spool: Path, alteration: Alteration) -> None:
    """Raise ``RunError`` where something that was to be changed of a script stayed as it was."""
    if alteration.removal and not (spool / REMOVED).exists():
        raise RunError(f"nothing was left out: {alteration.removal}")
    logs = sorted(spool.rglob("*.log"))
    processes = [process for log in logs for process in read_processes(log.name, open_log(log))[0]]
    effective = {
        fact.values.get("edit")
        for process in processes
        for fact in process.facts
        if fact.noun == "edit" and fact.values.get("times")
    }
    for number, edit in enumerate(alteration.edits or ()):
        if edit["kind"] != "set_env" and number not in effective:
            raise RunError(f"it had no effect: {dict(edit)}")


def settings_of(code: str) -> Edits:
    """Return the edits of settings by which a cause goes that no fix is named for; none of most."""
    return tuple(map(edit_to_json, _SETTINGS.get(code, ())))
