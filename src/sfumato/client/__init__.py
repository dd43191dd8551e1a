"""Ask a service: the same question as beside the rows, with the same answer and the same errors."""

from typing import TYPE_CHECKING

from sfumato.client.client import Client, connect
from sfumato.client.remote_release import Asked, Cost, Left, Paid, RemoteRelease
from sfumato.client.remote_tables import RemotePublicTable, RemoteQuestion, RemoteTable, RemoteTop
from sfumato.names import face

__all__ = [
    "Asked",
    "Client",
    "Cost",
    "Left",
    "Paid",
    "RemotePublicTable",
    "RemoteQuestion",
    "RemoteRelease",
    "RemoteTable",
    "RemoteTop",
    "connect",
]

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("client", __all__)
