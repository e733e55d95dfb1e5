"""Print a port that is free."""

import socket

with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    print(one.getsockname()[1])
