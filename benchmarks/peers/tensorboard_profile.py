"""Parse and process a trace with torch-tb-profiler, as its plugin does (in the peers' Python)."""

import sys
import tempfile

from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker0", None, sys.argv[1], cache)
        profile = RunGenerator("worker0", None, data).generate_run_profile()
    print(profile.overview)
