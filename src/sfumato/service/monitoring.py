"""Monitoring for the owner of a service: Prometheus metrics and a JSON log, without rows or queries."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import queue
import threading
import time
from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from logging.handlers import QueueHandler
from typing import Any

LOG = logging.getLogger("sfumato.service")
_BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # seconds


class Metrics:
    """Metrics of the service's requests, in one event loop.

    >>> metrics = Metrics()
    >>> metrics.done("release", 200, 0.02)
    >>> print(metrics.text(0).splitlines()[2])
    sfumato_requests_total{route="release",status="200"} 1
    """

    def __init__(self) -> None:
        self.running = 0
        self._requests = Counter[tuple[str, int]]()
        self._seconds = dict[str, tuple[list[int], float]]()

    def done(self, route: str, status: int, seconds: float) -> None:
        """Count a finished request in the metrics.

        Args:
            route: its name, one of few; never a path that somebody wrote.
            status: of its answer.
            seconds: that it took.
        """
        self._requests[route, status] += 1
        counts, total = self._seconds.get(route, ([0] * (len(_BOUNDS) + 1), 0.0))
        counts[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[route] = counts, total + seconds

    def text(self, killed: int) -> str:
        """Return all metrics in Prometheus text format.

        Args:
            killed: processes that were killed, or ended, in the middle of a question.
        """
        lines = [
            "# HELP sfumato_requests_total Requests that were answered.",
            "# TYPE sfumato_requests_total counter",
        ]
        for (route, status), count in sorted(self._requests.items()):
            lines.append(f'sfumato_requests_total{{route="{route}",status="{status}"}} {count}')
        lines += ["# HELP sfumato_seconds Time from request to answer.", "# TYPE sfumato_seconds histogram"]
        for route, (counts, total) in sorted(self._seconds.items()):
            so_far = 0
            for bound, count in zip((*_BOUNDS, "+Inf"), counts, strict=True):
                so_far += count
                lines.append(f'sfumato_seconds_bucket{{route="{route}",le="{bound}"}} {so_far}')
            lines += [
                f'sfumato_seconds_sum{{route="{route}"}} {total:.6f}',
                f'sfumato_seconds_count{{route="{route}"}} {so_far}',
            ]
        lines += [
            "# HELP sfumato_running Requests that are being answered, or wait.",
            "# TYPE sfumato_running gauge",
            f"sfumato_running {self.running}",
            "# HELP sfumato_killed_total Processes that ended in the middle of a question.",
            "# TYPE sfumato_killed_total counter",
            f"sfumato_killed_total {killed}",
        ]
        return "\n".join(lines) + "\n"


def digest(key: bytes, text: str) -> str:
    """Return a keyed digest that identifies a query in the log without revealing it.

    A question may be a guess about somebody, and a plain hash of it could be guessed.
    """
    return hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:24]


class Lines(logging.Formatter):
    """A log formatter that writes JSON lines; records of others appear without their arguments."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one JSON line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        line["event"] = str(record.msg)  # never with its arguments, which may quote a request
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line, default=str)


class LinesQueue(QueueHandler):
    """A log handler whose thread writes JSON lines, so that no request waits for a slow reader.

    Args:
        stream: that lines are written to.
        most: lines that wait; while so many do, later ones are dropped.
    """

    def __init__(self, stream: Any, most: int = 10_000) -> None:
        self._waiting: queue.Queue[Any] = queue.Queue(most)
        super().__init__(self._waiting)
        handler = logging.StreamHandler(stream)
        handler.setFormatter(Lines())
        self._writer = threading.Thread(target=self._write, args=(self._waiting, handler), daemon=True)
        self._writer.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the log record unchanged, for `Lines` to format."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a log record if there is room."""
        with suppress(queue.Full):
            super().enqueue(record)

    def stop(self, seconds: float = 5.0) -> None:
        """Write the queued log records, while somebody reads them."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=seconds)
            self._writer.join(seconds)

    def _write(self, waiting: queue.Queue[Any], handler: logging.Handler) -> None:
        while (record := waiting.get()) is not None:
            handler.handle(record)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line to the service's log.

    Args:
        event: what happened, in fixed words.
        level: of logging.
        fields: names, numbers and digests.
    """
    LOG.log(level, event, extra={"fields": fields})
