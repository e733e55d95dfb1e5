"""Record a training, log its account to TensorBoard beside its own scalars, and read it back.

python examples/log_to_tensorboard.py [FOLDER]
"""

import subprocess
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "logs"
    training = [sys.executable, str(Path(__file__).parent / "train_small.py")]
    command = [sys.executable, "-m", "gapless", "run", "--log-to", f"tensorboard:{folder}"]
    subprocess.run([*command, *training], check=True)
    events = EventAccumulator(folder)
    events.Reload()
    for tag in events.Tags()["tensors"]:
        if tag.startswith(("gapless/step", "gapless/group_share", "gapless/finding")):
            print(f"{tag} {events.Tensors(tag)[0].tensor_proto.float_val[0]:.3f}")


if __name__ == "__main__":
    main()
