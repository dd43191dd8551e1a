"""From a question about the rows of a collection to the transform that releases its answer."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

from sfumato.budget import Budget
from sfumato.engines.beam.engine import SHARDS, BeamEngine
from sfumato.engines.beam.release import PlannedRelease
from sfumato.engines.beam.top import PlannedTop
from sfumato.engines.secret import Secret
from sfumato.errors import ParameterError, QueryError
from sfumato.query.canonical_form import canonical, canonical_top
from sfumato.query.largest_groups import Top
from sfumato.query.payment import payment
from sfumato.query.question import Question


@overload
def Release(
    question: Question[PlannedRelease],
    *,
    confidence: float | None = None,
    shards: int = SHARDS,
    secret: Secret | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> PlannedRelease: ...
@overload
def Release(
    question: Top,
    *,
    shards: int = SHARDS,
    secret: Secret | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> PlannedTop: ...
def Release(
    question: Question[PlannedRelease] | Top,
    *,
    confidence: float | None = None,
    shards: int = SHARDS,
    secret: Secret | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> PlannedRelease:
    """Release the answer to a question about the rows of a collection.

    Args:
        question: begun with `sf.scan(pa.schema([...]), privacy_unit=...)`; or one for the
            largest groups, `.top(...)`.
        confidence: also give error bars of this confidence, under the names `<output>_error`.
        shards: into how many parts units, and groups, are divided.
        secret: an `EnvironmentSecret`, `FileSecret` or `CallableSecret`: where workers find the secret of
            the noise. Without it one is drawn here and staged with the pipeline, and who reads that can take
            the noise away.
        budget: that of all questions, which pays; see `sfumato.Budget`.
        options: epsilon, delta, noise, group_selection and pre_threshold, as for `Question.release`; or those
            of `Top.release`.
    Returns:
        A transform: `rows | Release(question, epsilon=1, delta=1e-6)` is a collection of dictionaries.
    Raises:
        QueryError, BudgetError: before a pipeline is run, and nothing is spent.
        RefusalError: when it is applied: a second time, by itself or by a copy, or in another process.

    >>> import pyarrow as pa, sfumato as sf
    >>> columns = pa.schema([("id", pa.int64()), ("place", pa.string())])
    >>> places = sf.scan(columns, privacy_unit="id").group_by("place").bound(groups=2, rows=1)
    >>> Release(places.agg(n=sf.count()), epsilon=1, delta="1e-6", confidence=0.95).spent
    (1.0, 1e-06)
    """
    if not isinstance(question, (Question, Top)):
        raise ParameterError("question", question, "what .agg(...) gives: sf.scan(...).agg(n=sf.count())")
    engine = question._engine if isinstance(question, Top) else question.table._engine
    if not isinstance(engine, BeamEngine):
        raise QueryError(
            f"Release: the question is about rows on {engine.name}; for rows of a pipeline begin with "
            "sf.scan(pa.schema([...]), privacy_unit=...)"
        )
    if isinstance(question, Top):
        if confidence is not None:
            raise QueryError(
                "Release: error bars of the largest groups are equal, so no column has them; leave "
                "confidence out, and ask the transform for its half_width(0.95)"
            )
        planned = question.plan(**options)
        pay = payment(budget, [planned], question.told, form=partial(canonical_top, planned))
        return engine.top(planned, shards=shards, secret=secret, pay=pay)
    plan = question.plan(**options)
    pay = payment(budget, [plan], question.query.told, form=partial(canonical, plan, engine))
    return engine.release(plan, confidence=confidence, shards=shards, secret=secret, pay=pay)
