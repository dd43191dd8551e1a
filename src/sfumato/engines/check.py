"""`sf.check`: a question beside the rows that it is about, for their owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from sfumato.engines.asked import ask
from sfumato.errors import ParameterError, QueryError
from sfumato.names import helpful
from sfumato.query.question import Question

if TYPE_CHECKING:
    from sfumato.engines.catalog import Catalog
    from sfumato.engines.question_check import QuestionCheck


@helpful
def check(
    asked: str | Question[Any],
    *,
    tables: Mapping[str, Any] | None = None,
    catalog: Catalog | None = None,
    types: Mapping[str, str] | None = None,
    splits: int = 3,
    removed: int = 10,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> QuestionCheck:
    """Check on the rows that a question keeps privacy units apart; for their owner alone.

    All units are split at random into two halves A and B, several times: the rows that the question makes of
    A and of B by themselves must be those that it makes of both, bit for bit. The same rows are then put in
    other physical orders: shuffled, with one thread and with many, and with so many rows more of one unit
    that DuckDB turns the sides of joins. No row of another unit may change. At last single units are removed:
    no exact number may move by more than the noise is made for. Nothing is released, and what this returns
    is not private.

    Args:
        asked: SQL, as for `sql`, or a question that `agg` gave.
        tables, catalog, types, memory_limit, threads, temp_directory: of SQL, as for `sql`.
        splits: how often all units are split.
        removed: how many units are removed, one at a time: half of them those with the most rows.
        progress: called with the share that is done.
    Returns:
        A `QuestionCheck`: `ok` where nothing was found; `str()` says what was. NOT PRIVATE.
    Raises:
        SqlError, QueryError, BudgetError, EngineError: as from `sql`.
        ParameterError: `splits` or `removed` is not a whole number of at least 1.
    Source:
        docs/sql-semantics.md, "What is checked".

    >>> import pyarrow as pa, sfumato as sf
    >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "price": [3, 4, 5]}), privacy_unit="id")
    >>> spent = orders.per_unit(spent="sum(price)").bound(rows=1).agg(mean=sf.mean("spent", lower=0, upper=9))
    >>> found = check(spent)
    >>> found.ok, found.rows, found.units
    (True, 2, 2)
    """
    from sfumato.engines.question_check import checked

    if isinstance(asked, Question):
        given = tables, catalog, types, memory_limit, threads, temp_directory
        if any(one is not None for one in given):
            raise QueryError("check: a question has its tables already; leave the others out")
        # How far one unit moves exact numbers has nothing to do with the budget.
        options: dict[str, Any] = {"epsilon": 1, "delta": "1e-6" if asked.query.private_groups else 0}
        return checked(asked, asked.plan(**options), splits, removed, progress)
    if not isinstance(asked, str):
        raise ParameterError("asked", type(asked).__name__, "SQL text, or a question that agg(...) gives")
    limits = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    found = ask(asked, tables, catalog, types, limits)
    if found.query.beside:
        raise QueryError(
            f"check: the text has {len(found.queries)} private SELECTs, each of which is a question of its "
            "own; check them one by one"
        )
    (question,) = found.questions
    if not isinstance(question, Question):
        raise QueryError(
            "check: the largest groups have no limits to be checked; check COUNT(DISTINCT unit) of the same "
            "groups"
        )
    return checked(question, question.plan(**found.query.release_options), splits, removed, progress)
