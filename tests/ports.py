"""A port for a server that is told which one to take, and takes it only a little later."""

import random
import socket

PORTS = range(20_000, 30_000)
"""Below those that systems give away by themselves, so that nothing comes by one of these meanwhile."""


def free_port() -> int:
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
