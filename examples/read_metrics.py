"""Read the metrics of gapless watch as Prometheus does, and print those of processors and GPUs.

python examples/read_metrics.py [RUN]
"""

import subprocess
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit


def main():
    watched = sys.argv[1:] or ["--machine"]
    command = [sys.executable, "-m", "gapless", "watch", *watched, "--serve", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            words = server.stderr.readline().split()  # gapless: metrics at http://…; Ctrl-C …
            url = urlsplit(next(word.rstrip(";") for word in words if "://" in word))
            connection = HTTPConnection(url.netloc, timeout=10)
            connection.request("GET", url.path)
            for line in connection.getresponse().read().decode().splitlines():
                if line.startswith(("gapless_processors", "gapless_gpu", "gapless_step")):
                    print(line)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
