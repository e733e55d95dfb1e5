"""Run a command apart: ``apart.py FOLDER PLAN COMMAND…``; tests kill this process."""

import json
import sys
from pathlib import Path

from gapless.launch.environment import RecorderSettings
from gapless.launch.run_spec import RunSpec
from gapless.launch.trial.isolated import IsolatedRun, run

folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
settings = RecorderSettings(windows=False, trial=plan)
run(IsolatedRun(RunSpec(tuple(sys.argv[3:]), folder / "runs", settings), folder / "output", 60.0))
