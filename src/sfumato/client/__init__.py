"""Ask a service: the same question as beside the rows, with the same answer and the same errors."""

from sfumato.client.released import Asked, Cost, Left, Paid, RemoteRelease
from sfumato.client.service import Client, connect
from sfumato.client.tables import RemotePublicTable, RemoteQuestion, RemoteTable, RemoteTop

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
