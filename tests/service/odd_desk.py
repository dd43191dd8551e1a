"""A desk that hangs, dies or errs as it is told; a module of its own, which a new process can import."""

import os
import signal
import threading
import time

from sfumato.errors import EngineError, QueryError
from sfumato.service.query_service import QueryRequest, QueryResponse, failed


class Odd:
    """A desk that does what it is told."""

    def __init__(self, begins: str = "") -> None:
        if begins == "fails":
            raise EngineError("there is no table")
        if begins == "breaks":
            raise KeyError("a value of a row")
        if begins == "dies":
            os._exit(3)

    def answer(self, job: QueryRequest) -> QueryResponse:
        match job.text:
            case "hang":
                time.sleep(600)
            case "wait":
                time.sleep(2.5)
            case "spin on two threads":
                threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
                while True:
                    pass
            case "spin":
                while True:
                    pass
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(0)
            case "break":
                raise KeyError("a value of a row")
            case "refuse":
                return failed(QueryError("not so"))
        return QueryResponse(200, "text/plain", str(os.getpid()).encode())
