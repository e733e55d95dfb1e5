"""Start a training as a tuner does: a process of its own, whose output is read."""

import subprocess
import sys

command = [sys.executable, "training.py", *sys.argv[1:]]
done = subprocess.run(command, capture_output=True, text=True, check=False)
print("its output:", done.stdout.splitlines())
print("its errors:", done.stderr.splitlines(), file=sys.stderr)
sys.exit(done.returncode)
