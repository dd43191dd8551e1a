"""What is here of something at a service: what stands for it in this process, and the calls that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from inspect import signature
from typing import Any, Protocol

from sfumato.client.released import Asked, RemoteRelease
from sfumato.dataclass import dataclass
from sfumato.display.displayed import Displayed
from sfumato.errors import QueryError
from sfumato.names import Helpful
from sfumato.query.largest_groups import Top
from sfumato.query.table import Table
from sfumato.query.tables.public_table import PublicTable
from sfumato.service.recorded import Recorded, SentCall

_OF_OWNER = "exact numbers of rows are for their owner, beside them"
NOT_HERE = {
    "analyze": f"{_OF_OWNER}; preview(...) tells which errors to expect",
    "diagnose": "release(diagnostics=...) tells what limits and bounds change, beside the answer",
    "for_analysts": "a service admits releases alone",
}


class Service(Protocol):
    """What sends a question, and brings what comes of it."""

    def _release(self, question: Mapping[str, Any], confidence: float, **flags: bool) -> RemoteRelease: ...

    def _ask(self, question: Mapping[str, Any], units: Sequence[int], confidence: float) -> Asked: ...


@dataclass(frozen=True, repr=False)
class Remote(Helpful, Displayed):
    """What is here of something at a service: whose it is, the calls that made it, and what stands for it."""

    service: Service
    recorded: Recorded
    local: Any = field(kw_only=True)

    def _next(self, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, Recorded]:
        """Call a method of what is here, and write the call down.

        Returns:
            What it gave, and the recording.
        """
        method = getattr(self.local, name)
        defaults = {key: one.default for key, one in signature(method).parameters.items()}
        given = {key: one for key, one in named.items() if key not in defaults or one is not defaults[key]}
        made = method(*map(self._here, args), **{key: self._here(one) for key, one in given.items()})
        sent = {key: _sent(one) for key, one in given.items()}
        if isinstance(made, (Table, Top)) and not _plain(given.get("keys")):
            sent["keys"] = _rows(made.public_keys)
        call = SentCall.of(name, map(_sent, args), sent)
        return made, replace(self.recorded, calls=(*self.recorded.calls, call))

    def _here(self, value: Any) -> Any:
        """Return what stands here for a table of the same service."""
        if isinstance(value, Remote) and isinstance(value.local, (Table, PublicTable)):
            if value.service is not self.service:
                raise QueryError("the tables are of two services; a question is asked of one")
            return value.local
        if isinstance(value, (Table, PublicTable)):
            raise QueryError(
                "a table of this process cannot be sent to a service, which has its rows to itself; take one "
                "of its own, clinic.table(...) or clinic.public(...)"
            )
        if isinstance(value, Mapping):
            return {key: self._here(one) for key, one in value.items()}
        return value


def _sent(value: Any) -> Any:
    if isinstance(value, Remote):
        return value.recorded
    return {key: _sent(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def _plain(keys: Any) -> bool:
    """Whether keys are sent as they are given: a frame or an array is sent as the rows that it comes to."""
    return keys is None or isinstance(keys, (str, list, tuple, set, range))


def _rows(keys: Any) -> list[Any]:
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
