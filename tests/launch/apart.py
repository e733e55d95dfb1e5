"""Run a command apart: ``apart.py FOLDER PLAN COMMAND…``; tests kill this process."""

import json
import sys
from pathlib import Path

from gapless.launch.apart import Apart, run
from gapless.launch.environment import Settings
from gapless.launch.order import Order

folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
settings = Settings(windows=False, trial=plan)
run(Apart(Order(tuple(sys.argv[3:]), folder / "runs", settings), folder / "output", 60.0))
