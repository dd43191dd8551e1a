"""Questions about rows that a Beam pipeline will bring."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

import pyarrow as pa

from sfumato.api.largest_groups import Top
from sfumato.api.question import Question
from sfumato.budget import Budget
from sfumato.engines.distributed_engine import DistributedEngine
from sfumato.engines.worker_noise import TopWork, Work
from sfumato.engines.worker_secret import Secret
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.exact import positive_int
from sfumato.query.engine_protocol import BroughtKeys, ExactQuery
from sfumato.query.schema import Step
from sfumato.query.tables.combined_tables import Combination, alike
from sfumato.release.canonical_form import canonical, canonical_top
from sfumato.release.payment import ChargeBudget, no_charge, payment

if TYPE_CHECKING:
    from sfumato.engines.beam.beam_release import PlannedRelease, PlannedTop
    from sfumato.noise import Words
    from sfumato.plan.plan import Plan
    from sfumato.plan.top_measurement import TopMeasurement


SHARDS = 16
# Of what is said of a schema.
_NAME = b"sfumato.collection"


def named(name: str, rows: pa.Schema) -> pa.Schema:
    """Name a collection of the pipeline, to combine its rows with those of other collections.

    Args:
        name: the key of the collection in the dictionary to which the release is applied.
        rows: the columns to take from each row, with their Arrow types.
    Returns:
        An Arrow schema that carries the name.
    Raises:
        ParameterError: name is not text, or rows is not an Arrow schema.

    >>> import pyarrow as pa
    >>> import sfumato as sf
    >>> order_columns = pa.schema({"id": pa.int64(), "town": pa.string()})
    >>> orders = sf.scan(named("orders", order_columns), privacy_unit="id")
    >>> towns = sf.public(named("towns", pa.schema({"town": pa.string(), "region": pa.string()})))
    >>> list(orders.join(towns, on="town").schema)
    ['id', 'town', 'region']
    """
    if not isinstance(name, str) or not name.strip():
        raise ParameterError("name", name, "the name of a collection, as text")
    if not isinstance(rows, pa.Schema):
        raise ParameterError("rows", type(rows).__name__, "an Arrow schema")
    return rows.with_metadata({**(rows.metadata or {}), _NAME: name.encode()})


class BeamEngine(DistributedEngine):
    """Plans queries on declared columns; rows come when a Beam release is applied to a collection.

    Args:
        rows: the columns that are looked for in each row, with their Arrow types.
        public: whether they are public knowledge.
        timezone: in which times with a zone are read.
    Raises:
        EngineError: a column is of a type that cannot be read.
    """

    name = "Beam"
    has_local_rows = False

    def __init__(self, rows: pa.Schema, public: bool = False, timezone: str = "UTC") -> None:
        from sfumato.engines.beam.beam_rows import make_schema

        super().__init__(make_schema(rows), timezone, public)
        name = (rows.metadata or {}).get(_NAME)
        self.collection: str | None = None if name is None else name.decode()

    def with_name(self, name: str) -> Self:
        """Return the Beam engine with a name for its collection."""
        made = copy.copy(self)
        made.collection = name
        return made

    @property
    def collections(self) -> dict[int, str] | None:
        """The collection names that a Beam pipeline brings, by number; None for one alone."""
        tables = self.tables
        if len(tables) == 1 and (not self._leaves or tables[0].relation == self._local.relation):
            return None
        found = ((number, leaf.engine) for number, leaf in tables.items())
        return {number: str(one.collection) for number, one in found if isinstance(one, BeamEngine)}

    def combined(self, how: Combination) -> Any:
        """Return a Beam engine on a combination of named collections.

        Raises:
            QueryError: one has none, or two have the same; or as of every engine.
        """
        made = super().combined(how)
        if not isinstance(made, BeamEngine):  # of public tables alone, which are here
            return made
        brought = [leaf.engine for leaf in made.tables.values() if isinstance(leaf.engine, BeamEngine)]
        if any(one.collection is None for one in brought):
            raise QueryError(
                "Beam: tables that are combined need names, under which the pipeline passes their "
                'rows. Write sf.scan(sfumato.beam.named("orders", schema), ...)'
            )
        of_leaves = [leaf.engine for leaf in made._leaves if isinstance(leaf.engine, BeamEngine)]
        names = [one.collection for one in of_leaves]
        # Of one by whose keys others reach their units, each question has another engine.
        if twice := {n for n in names if names.count(n) > 1} | _unlike(brought):
            raise QueryError(
                f"Beam: two tables have the name {min(map(str, twice))!r}. Give each its own name"
            )
        return made

    def public_keys(
        self, keys: Sequence[str], values: object, steps: Sequence[Step]
    ) -> pa.Table | BroughtKeys:
        """Return public keys, sorted; or the Beam collection that brings them.

        Raises:
            QueryError: they are none; or the collection, or that of the rows, has no name, has other columns
                or types, or is one of private rows.
        """
        if type(values).__module__.startswith("apache_beam."):
            raise QueryError(
                "group_by: keys= is a collection, but must give its columns here: "
                'keys=sfumato.beam.named("places", pa.schema({"place": pa.string()})). Pass the '
                'collection with the rows: {"visits": rows, "places": collection} | release'
            )
        if not isinstance(values, pa.Schema):
            return super().public_keys(keys, values, steps)
        there = BeamEngine(values, public=True)
        private = [leaf.engine for leaf in self.tables.values() if not _is_public(leaf.engine)]
        names = [one.collection for one in private if isinstance(one, BeamEngine)]
        if there.collection is None or None in names:
            raise QueryError(
                "group_by: keys= is a schema, so the pipeline passes the keys in a collection, and "
                'both collections need names. Write sf.scan(sfumato.beam.named("visits", schema), '
                '...) and keys=sfumato.beam.named("places", ...)'
            )
        if there.collection in names:
            raise QueryError(
                f"group_by: keys= names {there.collection!r}, whose rows are private, but each key "
                "is shown. Name a collection of public keys"
            )
        if sorted(there.schema()) != sorted(keys):
            raise QueryError(
                f"group_by: keys= has the columns {list(there.schema())}, but needs {list(keys)}"
            )
        schema = self.schema(steps)
        for key in keys:
            if not alike(there.schema()[key], schema[key]):
                raise QueryError(
                    f"group_by: keys= has {key} as {there.schema()[key].type_name}, but the "
                    f"column is {schema[key].type_name}. Declare the same type"
                )
        return BroughtKeys(there.collection, pa.schema([there._rows.field(key) for key in keys]))

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse exact statistics: Beam has no rows before a pipeline runs."""
        raise RefusalError(
            "Beam: rows can be read only when a pipeline runs. Apply a release to a collection"
        )

    def release(
        self,
        plan: Plan,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = no_charge,
        shards: int = SHARDS,
        secret: Secret | None = None,
    ) -> PlannedRelease:
        """Return the Beam transform of a release: rows to one dictionary for each group.

        Args:
            plan: what to do.
            confidence: also give error bars, under the names `<output>_error`.
            unsafe_words: refused here; the noise of a batch follows from a secret of the release.
            pay: called before the transform is made.
            shards: into how many parts units, and groups, are divided; one for each ten million pairs of
                unit and group keeps them small.
            secret: where workers find the secret of the noise; without it one is drawn and sent along.
        """
        self.check_release(plan, unsafe_words)
        from sfumato.engines.beam.beam_release import PlannedRelease
        from sfumato.engines.beam.beam_rows import detach_secret

        work = self.work(plan, confidence, positive_int(shards, "shards"), detach_secret(secret))
        form = partial(canonical, plan, self)
        made = PlannedRelease(plan, work, form, self._names_with(plan.query.public_keys))
        made.paid = pay()
        return made

    def top(
        self,
        plan: Plan[Top, TopMeasurement],
        *,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = no_charge,
        shards: int = SHARDS,
        secret: Secret | None = None,
    ) -> PlannedTop:
        """Return the Beam transform of the largest groups: rows to one dictionary for each group.

        Args:
            plan: what is asked, and its noise.
            unsafe_words, pay, shards, secret: as of `release`.
        """
        self._refuse(unsafe_words)
        self._check_joined_rows()
        from sfumato.engines.beam.beam_release import PlannedTop
        from sfumato.engines.beam.beam_rows import detach_secret

        stages = self.stages(plan.exact, positive_int(shards, "shards"))
        work = TopWork.prepare(plan, stages, detach_secret(secret))
        form, names = partial(canonical_top, plan), self._names_with(plan.query._public_keys)
        made = PlannedTop(plan, work, form, names)
        made.paid = pay()
        return made

    def _names_with(self, keys: pa.Table | BroughtKeys | None) -> dict[int, str] | None:
        """Return names of Beam collections, with that of public keys where one brings them."""
        from sfumato.engines.beam.beam_elements import KEYS

        if not isinstance(keys, BroughtKeys):
            return self.collections
        return (self.collections or {0: str(self.collection)}) | {KEYS: keys.collection}

    def work(
        self,
        plan: Plan,
        confidence: float | None = None,
        shards: int = SHARDS,
        secret: Secret | None = None,
    ) -> Work:
        """Return what Beam's workers will do for one release, with its secret or where it is."""
        return Work.prepare(plan, self.stages(plan.exact, shards), confidence, secret)


def _is_public(engine: object) -> bool:
    return not isinstance(engine, BeamEngine) or engine._public


def _unlike(engines: Sequence[BeamEngine]) -> set[str | None]:
    """Return names that Beam collections with different columns share."""
    first: dict[str | None, BeamEngine] = {}
    return {
        one.collection for one in engines if not first.setdefault(one.collection, one)._rows.equals(one._rows)
    }


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
    """Return a Beam transform that releases the answer to a question about the rows of a collection.

    Args:
        question: a question that begins with `sf.scan(pa.schema([...]), privacy_unit=...)`, also for the
            largest groups, `.top(...)`.
        confidence: add error bars of this confidence, named `<output>_error`.
        shards: the number of parts into which units, and groups, are divided.
        secret: an `EnvironmentSecret`, `FileSecret` or `CallableSecret`, where workers find the secret of the
            noise. Without it a secret is drawn here and staged with the pipeline, and anyone who can read
            that can remove the noise.
        budget: the `sfumato.Budget` to charge.
        options: epsilon, delta, noise, group_selection and pre_threshold, as for `Question.release`; or the
            options of `Top.release`.
    Returns:
        A transform: `rows | Release(question, epsilon=1, delta=1e-6)` is a collection of dictionaries.
    Raises:
        QueryError, BudgetError: before a pipeline runs; nothing is spent then.
        RefusalError: when it is applied a second time (also as a copy) or in another process.

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
            f"Release: the question reads rows on {engine.name}. For rows of a pipeline begin with "
            "sf.scan(pa.schema([...]), privacy_unit=...)"
        )
    if isinstance(question, Top):
        if confidence is not None:
            raise QueryError(
                "Release: the error bars of the largest groups are all equal, so they have no "
                "column. Leave confidence out, and call half_width(0.95) of the transform"
            )
        planned = question.plan(**options)
        pay = payment(budget, [planned], question.title, form=partial(canonical_top, planned))
        return engine.top(planned, shards=shards, secret=secret, pay=pay)
    plan = question.plan(**options)
    pay = payment(budget, [plan], question.query.title, form=partial(canonical, plan, engine))
    return engine.release(plan, confidence=confidence, shards=shards, secret=secret, pay=pay)
