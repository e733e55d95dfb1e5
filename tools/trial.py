"""Keep a trial with the tests: ``python -m tools.trial RUN/trials/01.json KEPT.json``.

What names the machine is left out: folders of arms, and where its interpreter lies.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from gapless.model.edit import Edit, SetEnv, SetGlobal
from gapless.model.trial import Trial
from gapless.store import trials


def plain(trial: Trial) -> Trial:
    """Give a trial without the folders of the machine it was made on."""
    return replace(
        trial,
        command=tuple(Path(word).name if word.startswith("/") else word for word in trial.command),
        run=None,
        arms=tuple(replace(arm, folder=None) for arm in trial.arms),
        sides=tuple(replace(one, edits=tuple(map(_placed, one.edits))) for one in trial.sides),
    )


def _placed(edit: Edit) -> Edit:
    if isinstance(edit, SetGlobal | SetEnv) or edit.where is None:
        return edit
    where = replace(edit.where, file=Path(edit.where.file).name)
    return msgspec.structs.replace(edit, where=where)


def main() -> int:
    """Copy one trial."""
    source, target = map(Path, sys.argv[1:3])
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(trials.document(plain(trials.read(source))), indent=1)
    target.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
