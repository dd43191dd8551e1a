"""Runs a module or a program of Beam whose servers would listen on every network interface: here, on none but one.

python on_localhost.py MODULE_OR_PROGRAM ARGUMENTS
"""

from __future__ import annotations

import runpy
import socket
import sys

import grpc


def main(program: str) -> None:
    opened = grpc.server

    def server(*arguments, **options):
        made = opened(*arguments, **options)
        listen = made.add_insecure_port
        made.add_insecure_port = lambda address: listen(address.replace("[::]", "localhost"))
        return made

    grpc.server, socket.getfqdn = server, lambda name="": "localhost"
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    del sys.argv[0]
    main(sys.argv[0])
