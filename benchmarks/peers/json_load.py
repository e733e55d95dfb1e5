"""Load a trace with ``json.load`` and count its events: what every dict-based reader does."""

import gzip
import json
import sys

if __name__ == "__main__":
    with gzip.open(sys.argv[1]) as file:
        print(len(json.load(file)["traceEvents"]))
