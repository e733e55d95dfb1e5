"""Keep a trial with the tests: ``python -m tools.trial RUN/trials/01.json KEPT.json``.

What names the machine is left out: folders of arms, and where its interpreter lies.
"""

import json
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gapless.model.edit import Edit, SetEnv, SetGlobal
from gapless.model.trial import Trial
from gapless.store.run import trials


def strip_machine(trial: Trial) -> Trial:
    """Return a trial without the folders of the machine it was made on."""
    return replace(
        trial,
        command=tuple(Path(word).name if word.startswith("/") else word for word in trial.command),
        run=None,
        arms=tuple(replace(arm, folder=None) for arm in trial.arms),
        sides=tuple(
            replace(side, edits=tuple(map(_strip_folder, side.edits))) for side in trial.sides
        ),
    )


def _strip_folder(edit: Edit) -> Edit:
    if isinstance(edit, SetGlobal | SetEnv) or edit.where is None:
        return edit
    location = replace(edit.where, file=Path(edit.where.file).name)
    return msgspec.structs.replace(edit, where=location)


def main() -> int:
    """Copy one trial."""
    source, target = map(Path, sys.argv[1:3])
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(trials.trial_object(strip_machine(trials.read(source))), indent=1)
    target.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
