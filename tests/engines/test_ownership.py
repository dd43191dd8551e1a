"""A release is drawn once, in one process and one object; so are what it is asked of and paid from."""

import copy
import pickle

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.sources import open_source
from sfumato.errors import RefusalError
from sfumato.query import sizes
from sfumato.release import release_files
from sfumato.release.release import Release

pytestmark = pytest.mark.noise_cannot_matter(
    "looks at one release are compared with each other, whatever was drawn"
)


def question():
    rows = pa.table({"id": range(1000), "k": [i % 7 for i in range(1000)]})
    return sf.scan(rows, privacy_unit="id").group_by("k").bound(groups=1, rows=1).agg(n=sf.count())


def release():
    return question().release(epsilon=1, delta=1e-6)


def shown(asked):
    return asked.to_arrow().to_pydict()


LOOKS = {
    "to_arrow": lambda r, folder: r.to_arrow(),
    "to_pandas": lambda r, folder: r.to_pandas(),
    "to_polars": lambda r, folder: r.to_polars(),
    "errors": lambda r, folder: r.errors(),
    "write": lambda r, folder: r.write(folder / "out.parquet"),
    "write all": lambda r, folder: r.write(folder / "out.csv", confidence=0.9, simultaneous=True),
}


def test_a_child_draws_no_noise(tmp_path, in_child):
    asked = release()
    for look in LOOKS.values():
        kind, text = in_child(lambda look=look: look(asked, tmp_path))
        assert kind is RefusalError and "two releases for one charge" in text
    assert list(tmp_path.iterdir()) == []
    mine = shown(asked)
    assert shown(asked) == mine


def test_a_question_is_not_copied_and_attributes_that_moved_draw_nothing():
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(
            RefusalError, match="this table belongs to the process that made it, and cannot be copied"
        ):
            duplicate(question())
    asked = release()
    other = type(asked).__new__(type(asked))
    vars(other).update(vars(asked))
    with pytest.raises(RefusalError, match="cannot be copied"):
        other.to_arrow()


def test_a_child_of_a_process_that_is_drawing_draws_nothing(in_child, monkeypatch):
    asked, told = release(), []
    drawn = type(asked)._noisy

    def forks(self, batch):
        told.append(in_child(lambda: shown(asked)))
        return drawn(self, batch)

    monkeypatch.setattr(type(asked), "_noisy", forks)
    mine = shown(asked)
    assert [kind for kind, _ in told] == [RefusalError]
    assert shown(asked) == mine


def test_a_look_in_the_middle_of_a_draw_is_refused_and_spoils_nothing(monkeypatch):
    """As from a handler of a signal, which runs in the thread that draws."""
    asked, told = release(), []
    drawn = type(asked)._noisy

    def looks(self, batch):
        with pytest.raises(RefusalError, match="is being drawn") as caught:
            shown(asked)
        told.append(caught)
        return drawn(self, batch)

    monkeypatch.setattr(type(asked), "_noisy", looks)
    mine = shown(asked)
    assert told and shown(asked) == mine


@pytest.mark.long
@pytest.mark.parametrize(("at", "look"), [(1, "to_arrow"), (3, "errors"), (1, "write"), (3, "write all")])
def test_a_fork_in_the_middle_goes_on_in_the_parent_alone(at, look, tmp_path, monkeypatch, fork):
    """At the first batch, and at the last, when some were written."""
    asked, drawn, seen = release(), Release._noisy, []

    def forks(self, batch):
        seen.append(len(batch))
        if len(seen) == at:
            fork.here()
        return drawn(self, batch)

    monkeypatch.setattr(Release, "_noisy", forks)
    monkeypatch.setattr(sizes, "BATCH_GROUPS", 3)
    monkeypatch.setattr(release_files, "ROW_GROUP", 3)
    assert fork.told(lambda: LOOKS[look](asked, tmp_path), RefusalError) == ("refused", "went on")
    assert seen == [3, 3, 1]
    assert len(shown(asked)["k"]) == 7
    assert sorted(file.suffix for file in tmp_path.iterdir()) in ([], [".parquet"], [".csv", ".json"])


class Interrupted:
    """A cursor; a key is pressed when it has put the rows in."""

    def __init__(self, cursor):
        self.cursor, self.register = cursor, cursor.register

    def execute(self, text):
        done = self.cursor.execute(text)
        if text.startswith("INSERT"):
            done.fetchall()
            raise KeyboardInterrupt
        return done


def test_rows_of_a_relation_come_once_however_often_it_is_begun():
    source = open_source(duckdb.sql("SELECT i AS id FROM range(10) t(i)"))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), source.session() as session:
            source.load(Interrupted(session), ["id"])
    with source.session() as session:
        source.load(session, ["id"])
        assert session.sql(f"SELECT count(*) FROM {source.relation}").fetchall() == [(10,)]


@pytest.mark.long
def test_a_child_asks_nothing_of_its_parents_database(in_child):
    asked = question()
    for look in (
        lambda: shown(asked.release(epsilon=1, delta=1e-6)),
        lambda: sf.Table(asked.table._engine, "id").filter("k > 3"),
    ):
        kind, text = in_child(look)
        assert kind is RefusalError
        assert "Call sf.scan in the other process" in text
    assert in_child(asked.table._engine.progress) is None
    assert set(in_child(lambda: shown(release()))) == {"k", "n"}
