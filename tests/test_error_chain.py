"""No error that leaves the library holds a value of a row: not in its text, nor anywhere behind it."""

import _thread
import pickle
import signal
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from enum import Enum
from functools import partial
from itertools import repeat, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato import errors
from sfumato.client import connect
from sfumato.engines.duckdb import connection, sources
from sfumato.engines.duckdb import source_reader as engines
from sfumato.engines.duckdb import stages as staged
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.worker_noise import Work
from sfumato.errors import EngineError, QueryError, RefusalError, SfumatoError, in_own_words
from sfumato.framework import AbsoluteDistance, Odometer, PureDP, Row
from sfumato.measurements import laplace
from sfumato.noise import FixedWords, Laplace
from sfumato.plan.group_measurement import GroupMeasurement
from sfumato.snapping import to_lattice

pytestmark = pytest.mark.noise_cannot_matter("texts of errors are looked at, no number")

MARK = "Private Value"
ROWS = pa.table({"id": [1, 2, 3], "k": [MARK, "b", "c"], "v": [1.0, 2.0, 3.0]})
# Fails at a row, and quotes it; stands for whatever DuckDB may stumble over.
FAILING = f"SELECT CAST('{MARK}' || k AS INTEGER) AS n FROM source_rows"


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that is behind it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [found.__cause__, found.__context__]
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions


def shown(error: BaseException) -> str:
    """Return all that a logger may print of an error, but the values of local variables."""
    parts = [*traceback.format_exception(error)]
    for each in chain(error):
        notes = getattr(each, "__notes__", ())
        parts += [str(each), repr(each), repr(each.args), repr(notes), repr(vars(each))]
    return "\n".join(parts)


def refused(function: Any) -> SfumatoError:
    with pytest.raises(SfumatoError) as raised:
        function()
    assert MARK not in shown(raised.value), shown(raised.value)
    assert list(chain(raised.value)) == [raised.value]
    return raised.value


def advised(**given: Any) -> Any:
    table = sf.scan(ROWS, privacy_unit="id")
    asked = {"questions": [table.agg(n=sf.count_units())], "epsilon": 1} | given
    return sf.advise(table, asked.pop("questions"), **asked)


def question(table: Any) -> Any:
    return table.bound(groups=1, rows=1).agg(v=sf.sum("v", lower=0, upper=1))


@pytest.mark.parametrize("where", ["context", "cause", "notes", "group", "nowhere"])
def test_the_walk_finds_a_value_anywhere(where):
    error = EngineError("told")
    error.__context__ = ValueError(MARK if where == "context" else "")
    error.__cause__ = {"cause": KeyError(MARK), "group": ExceptionGroup("", [ValueError(MARK)])}.get(where)
    error.add_note(MARK if where == "notes" else "")
    assert (MARK in shown(error)) is (where != "nowhere")


# While rows are read.


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As in a terminal: what a shell starts in the background is told to ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def failing(monkeypatch):
    """Let the query of exact statistics fail at a row, as a change of types under it would."""

    class Failing(engines.BoundingSql):
        def text(self) -> str:
            return FAILING

    monkeypatch.setattr(engines, "BoundingSql", Failing)


def test_the_query_itself_quotes_rows():
    # A connection of its own: DuckDB's common one may still have a result that another test did not read.
    with closing(duckdb.connect()) as connection, pytest.raises(duckdb.Error, match=MARK):
        connection.sql(FAILING.replace("source_rows", "ROWS")).fetchall()


def test_a_row_that_fails(failing, tmp_path):
    release = question(sf.scan(ROWS, privacy_unit="id")).release(epsilon=1)
    assert "DuckDB stopped" in str(refused(lambda: release.write(tmp_path / "o.csv")))
    refused(release.to_arrow)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_a_row_fails(interrupt, failing, monkeypatch):
    """Python looks for signals where a block that fails is left, and keeps behind an interrupt what failed."""

    class Interrupted(suppress):
        def __exit__(self, kind: Any, *_: Any) -> bool:
            if kind is not None:
                raise interrupt
            return True

    release = question(sf.scan(ROWS, privacy_unit="id")).release(epsilon=1)
    monkeypatch.setattr(engines, "_End", Interrupted)
    with pytest.raises(interrupt) as raised:
        release.to_arrow()
    assert MARK not in shown(raised.value)


def within_python(rows: pa.Table = ROWS) -> Iterator[pa.RecordBatch]:
    """Rows that Python gives, and an interrupt in the middle of one."""
    yield from rows.to_batches()
    signal.raise_signal(signal.SIGINT)


def within_duckdb() -> Iterator[pa.RecordBatch]:
    """Rows behind each of which an interrupt waits for DuckDB to look, as nothing here is written in Python."""
    interrupts = starmap(_thread.interrupt_main, repeat(()))
    return map(itemgetter(0), zip(ROWS.to_batches() * 3, interrupts, strict=False))


def unguarded(connection: duckdb.DuckDBPyConnection, given: Iterator[pa.RecordBatch]) -> list[Any]:
    connection.register("arriving", pa.RecordBatchReader.from_batches(ROWS.schema, given))
    connection.execute("SET threads = 1")  # this thread's own, where Python minds signals
    return connection.execute("SELECT count(k) FROM arriving").fetchall()


def interrupted_query(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(engines, "batches", lambda c, *_: iter(unguarded(c, within_duckdb())))
    return ROWS


class InterruptedTable:
    """Rows that DuckDB asks for by calls of Python, one of which is interrupted."""

    __arrow_c_schema__ = ROWS.schema.__arrow_c_schema__

    def __arrow_c_stream__(self, schema: object = None) -> object:
        raise KeyboardInterrupt


def interrupted_table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sources, "sanitize_table", lambda *_: InterruptedTable())
    return ROWS


SAID = "Invalid Input Error: {} the object registered as 'source_rows' failed: {}"


@pytest.mark.parametrize("doing", ["counting the rows of", "offering a filter to", "reading"])
def test_an_interrupt_is_known_by_the_whole_text_alone(doing):
    assert errors._is_interrupt(duckdb.InvalidInputException(SAID.format(doing, "KeyboardInterrupt: ")))
    for error in ("ValueError: KeyboardInterrupt: ", "KeyboardInterrupt: a row", "x\nKeyboardInterrupt: "):
        assert not errors._is_interrupt(duckdb.InvalidInputException(SAID.format(doing, error)))
    assert not errors._is_interrupt(duckdb.ConversionException(SAID.format(doing, "KeyboardInterrupt: ")))


@pytest.mark.parametrize("interrupted", [interrupted_query, interrupted_table])
def test_an_interrupt_of_a_release(interrupted, monkeypatch):
    """It was taken for an error of a row: a program that goes on at errors went on."""
    release = question(sf.scan(interrupted(monkeypatch), privacy_unit="id")).release(epsilon=1)
    with pytest.raises(KeyboardInterrupt) as raised:
        release.to_arrow()
    assert list(chain(raised.value)) == [raised.value]
    with pytest.raises(RefusalError, match="a second draw"):
        release.to_arrow()


def test_an_interrupt_of_a_worker():
    query = question(sf.scan(ROWS, privacy_unit="id")).plan(epsilon=1).exact
    stages = Stages.prepare(DuckDBEngine.open(ROWS), ROWS.schema, query, 1)
    for given in (within_python, within_duckdb):
        with pytest.raises(KeyboardInterrupt) as raised:
            list(stages.partials(given()))
        assert list(chain(raised.value)) == [raised.value]


@pytest.mark.parametrize("foreign", [KeyError, MemoryError, AssertionError])
def test_whatever_fails_on_the_way_to_the_noise(foreign, monkeypatch):
    def draw(*_: Any) -> None:
        raise foreign(MARK)

    monkeypatch.setattr(GroupMeasurement, "draw", draw)
    release = question(sf.scan(ROWS, privacy_unit="id")).release(epsilon=1)
    assert foreign.__name__ in str(refused(release.to_arrow))


def test_a_damaged_file(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path)
    release = question(sf.scan(path, privacy_unit="id")).release(epsilon=1)
    path.write_bytes(path.read_bytes().replace(b"Private Value", b"Private Value"[::-1])[:-9] + b"ruined")
    refused(release.to_arrow)
    refused(lambda: sf.scan(path, privacy_unit="id"))


@pytest.mark.long
def test_memory_that_runs_out(monkeypatch):
    rows = pa.table({"id": range(200_000), "k": [f"{MARK} {i}" for i in range(200_000)]})
    asked = sf.scan(rows, privacy_unit="id").group_by("k").bound(groups=1, rows=1).agg(n=sf.count())
    little = {"memory_limit": "2MB", "max_temp_directory_size": "0KB"}
    monkeypatch.setattr(Resources, "settings", little)
    monkeypatch.setattr(connection, "_idle", {})
    refused(asked.release(epsilon=1, delta=1e-6).to_arrow)


@pytest.mark.long
def test_a_worker_that_fails(monkeypatch):
    asked = question(sf.scan(ROWS, privacy_unit="id")).release(epsilon=1)
    stages = Stages.prepare(DuckDBEngine.open(ROWS.schema.empty_table()), ROWS.schema, asked.plan.exact, 2)
    work = pickle.loads(pickle.dumps(Work.prepare(asked.plan, stages)))
    bad = pa.table({"a": [MARK]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bad.schema) as writer:
        writer.write_table(bad)
    part = bytes(sink.getvalue())
    for call in (
        lambda: list(stages.partials(bad.to_batches())),
        lambda: list(stages.totals([part])),
        lambda: stages.joined_partials([part, MARK.encode()]),
        lambda: stages.joined_totals([part]),
        lambda: list(stages.merged(None, [part], 10)),
        lambda: list(work.released(0, [part])),
        lambda: list(work.released(0, [MARK.encode()])),
    ):
        refused(call)

    def draw(*_: Any) -> None:
        raise KeyError(MARK)

    monkeypatch.setattr(GroupMeasurement, "draw", draw)
    refused(lambda: list(work.released(0, [])))

    def payloads(*_: Any) -> None:
        raise duckdb.ConversionException(MARK)

    monkeypatch.setattr(staged, "iter_shards", payloads)
    refused(lambda: stages.joined_totals([]))
    refused(lambda: list(stages.partials([])))


# While a source is opened.

MIXED = {
    "polars lazy": lambda: polars.LazyFrame({"id": ["1", MARK]}).select(polars.col("id").cast(polars.Int64)),
    "relation": lambda: duckdb.sql(f"SELECT 1 AS id, CAST('{MARK}' || range AS INTEGER) AS v FROM range(3)"),
}


@pytest.mark.parametrize("source", MIXED)
def test_a_source_that_mixes_types(source):
    refused(lambda: counted_units(MIXED[source]()))


def counted_units(source: Any) -> None:
    sf.scan(source, privacy_unit="id").agg(n=sf.count_units()).release(epsilon=1).to_arrow()


# Types whose labels come from rows.


@pytest.fixture
def labelled(tmp_path: Path) -> str:
    label = f"'{MARK} it''s, ''), \n x'"
    with duckdb.connect(tmp_path / "rows.db") as connection:
        connection.execute(f"CREATE TYPE label AS ENUM ({label}, 'b')")
        connection.execute(
            f"CREATE TABLE rows AS SELECT 1 AS id, {label}::label AS k, [k] AS l, {{'a': k}} AS s, MAP {{'x': k}} AS m, "
            "k AS u, 3 AS v"
        )
    return f"{tmp_path}/rows.db/rows"


LABELS = {
    "sum": lambda t: t.agg(v=sf.sum("k", lower=0, upper=1)),
    "number": lambda t: t.with_columns(z="k + 1"),
    "struct": lambda t: t.filter("s + 1 > 2"),
    "group by list": lambda t: t.group_by("l"),
    "derived": lambda t: t.with_columns(z="k").agg(v=sf.sum("z", lower=0, upper=1)),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_are_not_told(case, labelled):
    error = refused(lambda: LABELS[case](sf.scan(labelled, privacy_unit="id")))
    assert isinstance(error, QueryError)


def test_labels_are_not_shown(labelled):
    table = sf.scan(labelled, privacy_unit="u").filter("k IS NOT NULL").with_columns(z="k")
    assert MARK not in repr(table.schema)
    assert table.schema["k"].type_name == "VARCHAR"
    assert table.schema["l"].type_name == "VARCHAR[]"
    release = table.group_by("z", keys=["b"]).bound(groups=1, rows=1).agg(n=sf.count()).release(epsilon=1)
    assert MARK not in str(release.explain()) + repr(release) + repr(table)
    assert release.to_arrow()["z"].to_pylist() == ["b"]


# The mechanism.


def test_nothing_stays_behind_an_error():
    def says(error: Exception) -> SfumatoError:
        return EngineError("told")

    def foreign() -> None:
        raise ValueError(MARK)

    def ours() -> None:
        try:
            foreign()
        except ValueError as error:
            raise EngineError("told") from error

    @in_own_words(says, ValueError)
    def decorated() -> None:
        foreign()

    def generator() -> Iterator[int]:
        with in_own_words(says, Exception):
            yield 1
            foreign()

    def block(function: Any) -> None:
        with in_own_words(says, ValueError):
            function()

    for function in (decorated, lambda: list(generator()), lambda: block(foreign), lambda: block(ours)):
        refused(function)
    with pytest.raises(KeyError):
        in_own_words(says, ValueError)(lambda: {}["x"])()


# What was given in the place of something else.


def failing_rows() -> Iterator[str]:
    yield MARK
    raise ValueError(MARK)


GIVEN = {
    "series": lambda: ROWS.to_pandas()["k"],
    "table": lambda: ROWS,
    "array": ROWS["k"].to_numpy,
    "list": lambda: [MARK],
    "mapping": lambda: {"k": MARK},
    "array of one": lambda: numpy.array([MARK]),
    "record": lambda: numpy.array([(1, MARK)], dtype=[("id", int), ("k", "U20")])[0],
    "row": lambda: Row(1, MARK, {}),
    "what fails on the way": failing_rows,
    "content of a file": lambda: f"id,k\n1,{MARK}",
}


def asked(**options: Any) -> Any:
    table = sf.scan(ROWS, privacy_unit="id").group_by("k").bound(groups=1, rows=1)
    return table.agg(n=sf.count()).plan(**{"epsilon": 1, "delta": 1e-6} | options)


def surveyed(**options: Any) -> Any:
    table = {"s": ["b", "b", "c", "c"], "a": ["x", "y", "x", "y"]}
    given = {"stratum": "s", "answer": "a", "yes": "x", "population": {"b": 9, "c": 9}, "epsilon": 1}
    return sf.stratified_proportion(table, **given | options)


def counted() -> Any:
    return question(sf.scan(ROWS, privacy_unit="id"))


def shared(**options: Any) -> Any:
    return counted().release(**{"share": "0.1", "budget": sf.Budget(1, "1e-6")} | options)


def released(**options: Any) -> Any:
    return counted().release(epsilon=1, **options)


PLACES = {
    "source": lambda g: sf.scan(g, privacy_unit="name"),
    "address of a service": lambda g: connect(g, "token"),
    "token": lambda g: connect("http://127.0.0.1:9", g if not isinstance(g, str) else f"{g}\n"),
    "noise": lambda g: asked(noise=g),
    "epsilon": lambda g: asked(epsilon=g),
    "share for finding bounds": lambda g: sf.scan(ROWS, privacy_unit="id").bound(rows=1).agg(
        m=sf.mean("v", lower="auto", upper="auto")
    ).release(epsilon=1, auto_share=g),
    "rows of a unit in a join": lambda g: sf.scan(ROWS, privacy_unit="id").join(
        sf.scan(ROWS, privacy_unit="id"), on="id", unit_rows=g
    ),
    "column of a mean": lambda g: counted().preview(epsilon=1, means={g: 1} if isinstance(g, str) else g),
    "diagnostics": lambda g: released(diagnostics=g),
    "share": lambda g: shared(share=g),
    "table of advice": lambda g: sf.advise(g, [counted()], epsilon=1),
    "a question of advice": lambda g: advised(questions=[g]),
    "budget of a release": lambda g: released(budget=g),
    "epsilon of a budget": sf.Budget,
    "what is spent": lambda g: sf.Budget(1).spend(g),
    "place of a ledger": sf.Ledger,
    "head of a journal": sf.Ledger("none.db").journal.verify,
    "dataset of a ledger": lambda g: sf.Ledger("none.db").create(g, 1),
    "groups of an analysis": lambda g: counted().analyze(epsilon=1, groups=g),
    "path": lambda g: released().write(g),
    "receipt that is read": sf.Receipt.read,
    "survey's noise": lambda g: surveyed(noise=g),
    "law": Laplace,
    "lattice": lambda g: to_lattice(g, 0.5),
    "fixed words": lambda g: FixedWords([g]),
    "domain": lambda g: Odometer(3, g, AbsoluteDistance(), PureDP(), 1),
    "words": lambda g: released(unsafe_words=g),
    "privacy unit": lambda g: sf.scan(ROWS, privacy_unit=g if not isinstance(g, (str, list)) else 3),
    "filter": lambda g: sf.scan(ROWS, privacy_unit="id").filter(g if not isinstance(g, str) else 3),
    "bound": lambda g: sf.scan(ROWS, privacy_unit="id").bound(groups=g),
    "aggregate": lambda g: sf.scan(ROWS, privacy_unit="id").agg(n=g),
    "sql": lambda g: sf.sql(g if not isinstance(g, str) else 3),
    "data": laplace(2),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_what_is_given_by_mistake_is_not_quoted(place):
    # One test of all that is given: two thousand would take longer to begin and end than to run.
    for given, make in GIVEN.items():
        error = refused(partial(PLACES[place], make()))
        assert str(pickle.loads(pickle.dumps(error))) == str(error), given


def test_only_plain_arguments_speak_for_themselves():
    class Number(int):
        def __repr__(self) -> str:
            return MARK

    class Kind(type):
        def __repr__(cls) -> str:
            return MARK

    class Letter(Enum):
        A = MARK

    for value in (Number(1), Kind("A", (), {}), Letter.A, [Number(1)], numpy.array(MARK), numpy.str_(MARK)):
        assert MARK not in errors.shown(value), errors.shown(value)


# Surveys.


def stopping(value: Any) -> Any:
    raise ValueError(MARK)


def damaged() -> pa.Table:
    text = pa.array([MARK.encode() + b"\xff"]).buffers()
    return pa.table({"s": pa.Array.from_buffers(pa.string(), 1, text), "a": ["x"]})


def failing_frame() -> Any:
    stops = polars.col("s").map_elements(stopping, return_dtype=polars.String)
    return polars.LazyFrame({"s": [MARK], "a": ["x"]}).select("a", stops)


@pytest.mark.parametrize("made", [damaged, failing_frame])
def test_a_survey_that_cannot_be_read(made):
    given = {"stratum": "s", "answer": "a", "yes": "x", "population": {"b": 100, "c": 9}, "epsilon": 1}
    refused(lambda: sf.stratified_proportion(made(), **given))
