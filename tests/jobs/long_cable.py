"""A cable between two interfaces, on which each frame takes some ms: ``long_cable.py A B MS``."""

import fcntl
import os
import struct
import sys
import threading
import time
from collections import deque
from contextlib import suppress

_SET_INTERFACE = 0x400454CA
_TAP, _PLAIN = 0x0002, 0x1000
_MAX_FRAME = 65536


def open_end(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TAP | _PLAIN))
    return end


def carry(source: int, target: int, delay_s: float) -> None:
    """Pass frames on, each so long after it came."""
    frames: deque[tuple[float, bytes]] = deque()
    has_frames = threading.Semaphore(0)

    def deliver() -> None:
        while True:
            has_frames.acquire()
            due_s, frame = frames.popleft()
            time.sleep(max(0.0, due_s - time.monotonic()))
            with suppress(OSError):  # the interface is down
                os.write(target, frame)

    threading.Thread(target=deliver, daemon=True).start()
    while True:
        try:
            frame = os.read(source, _MAX_FRAME)
        except OSError:
            time.sleep(0.01)
            continue
        frames.append((time.monotonic() + delay_s, frame))
        has_frames.release()


def main() -> None:
    first, second = open_end(sys.argv[1]), open_end(sys.argv[2])
    print("open", flush=True)
    delay_s = float(sys.argv[3]) / 1000
    threading.Thread(target=carry, args=(first, second, delay_s), daemon=True).start()
    carry(second, first, delay_s)


if __name__ == "__main__":
    main()
