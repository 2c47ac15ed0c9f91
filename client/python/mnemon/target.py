# SPDX-License-Identifier: MIT
"""What gRPC is to connect to, of a server's address as people write it."""

import os

_PORT = ":50051"


def default_server() -> str:
    """MNEMON_SERVER of the environment, as of the command mnemon; else this machine."""
    return os.environ.get("MNEMON_SERVER") or f"127.0.0.1{_PORT}"


def target_of(server: str) -> str:
    """Adds the port where it is missing: gRPC would take 443. HOST:PORT and URIs, such
    as unix:/run/mnemon.sock, stay as they are."""
    if "/" in server or server.startswith("unix:"):
        return server
    if server.startswith("["):
        return server + _PORT if server.endswith("]") else server
    colons = server.count(":")
    if colons == 0:
        return server + _PORT
    return f"[{server}]{_PORT}" if colons > 1 else server
