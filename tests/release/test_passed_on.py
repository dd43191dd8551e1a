"""Plans and finished releases go elsewhere, with the same numbers; what could draw once more does not."""

import base64
import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import RefusalError
from sfumato.plan.serialization import deserialize, serialize

pytestmark = pytest.mark.noise_cannot_matter("the same numbers are compared, whichever they are")
SECRET = "nobody-shall-see-this"
ROWS = 600
DATA = pa.table(
    {
        "id": [i // 2 for i in range(ROWS)],
        "town": [f"{'AB'[i % 2]}" for i in range(ROWS - 1)] + [SECRET],
        "year": [1984 + i % 3 for i in range(ROWS)],
        "x": [float(i % 7) for i in range(ROWS)],
    }
)
WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "old pickle": lambda one: pickle.loads(pickle.dumps(one, protocol=2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def table() -> Any:
    return sf.scan(DATA, privacy_unit="id")


def private() -> Any:
    return table().group_by("town").bound(groups=1, rows=2)


def public() -> Any:
    return table().group_by("year", keys=[1984, 1985, 1986]).bound(groups=3, rows=1)


def of_sql(text: str) -> Any:
    options = "OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 1, max_rows_per_group = 1)"
    return sf.sql(text.format(f"SELECT WITH DIFFERENTIAL_PRIVACY {options}"), tables={"t": DATA})


RELEASES: dict[str, Callable[[], Any]] = {
    "private groups": lambda: private().agg(n=sf.count(), x=sf.mean("x", lower=0, upper=7)).release(epsilon=1, delta="1e-6"),
    "thresholds": lambda: private().agg(n=sf.count_units()).release(epsilon=1, delta="1e-6", noise="gaussian", group_selection="gaussian"),
    "public groups": lambda: public().agg(n=sf.count(), v=sf.variance("x", lower=0, upper=7)).release(epsilon=1, confidence=0.9),
    "trees": lambda: public().agg(q=sf.quantiles("x", [0.5], lower=0, upper=7)).release(epsilon=1, noise="laplace"),
    "places": lambda: public().agg(q=sf.median("x", lower=0, upper=7), n=sf.count()).release(epsilon=1),
    "time steps": lambda: public().agg(n=sf.cumulative(sf.count())).release(epsilon=1),
    "totals": lambda: table().group_by("town", "year", keys=[("A", 1984), ("B", 1985)]).bound(groups=2, rows=1).totals().agg(n=sf.count()).release(epsilon=1, delta="1e-6"),
    "one number": lambda: table().agg(n=sf.count_units()).release(epsilon=1),
    "diagnostics": lambda: public().agg(n=sf.count()).release(epsilon=1, diagnostics=0.1),
    "automatic": lambda: table().bound(rows=2).agg(x=sf.mean("x", lower=0, upper="auto")).release(epsilon=1),
    "largest groups": lambda: table().top("year", k=2, keys=[1984, 1985, 1986]).release(epsilon=1),
    "SQL": lambda: of_sql("{} year, COUNT(*) AS n FROM t GROUP BY year ORDER BY n"),
    "SQL after it": lambda: of_sql("SELECT n * 2 AS twice, n FROM ({} year, COUNT(*) AS n FROM t GROUP BY year)"),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASES)
def test_a_finished_release_has_the_same_numbers_elsewhere_and_never_draws(name: str) -> None:
    release = RELEASES[name]()
    for way in WAYS.values():
        with pytest.raises(RefusalError, match="cannot be copied"):
            way(release)
    assert not release.drawn
    release.to_arrow()
    for way in WAYS.values():
        other = way(release)
        assert other is not release and other.drawn and other.to_arrow().equals(release.to_arrow())
        assert other.spent == release.spent and repr(other) == repr(release)
        assert other.canonical() == release.canonical() and str(other.explain()) == str(release.explain())
        if release.measured:
            assert other.errors(0.9).equals(release.errors(0.9))
        assert other.receipt().to_dict() == release.receipt().to_dict()
        assert other._repr_html_() == release._repr_html_()
        for one in getattr(other, "_releases", (other,)):
            with pytest.raises(RefusalError, match="which has only the numbers drawn there"):
                next(iter(one._engine.statistics(None, 1)))
            with pytest.raises(RefusalError, match="second"):
                one._draw()
        again = pickle.loads(pickle.dumps(other))
        assert again.to_arrow().equals(release.to_arrow())


def test_nothing_of_rows_that_are_not_shown_goes_along() -> None:
    release = RELEASES["private groups"]()
    assert SECRET not in release.to_arrow()["town"].to_pylist()
    data = pickle.dumps(release)
    assert SECRET.encode() not in data
    assert len(data) < 40_000


def test_a_release_that_was_streamed_takes_its_table_along(tmp_path: Path) -> None:
    release = RELEASES["public groups"]()
    release.write(tmp_path / "n.parquet")
    other = pickle.loads(pickle.dumps(release))
    (tmp_path / "n.parquet").unlink()
    assert other.to_arrow().num_rows == 3 and other._repr_html_()
    with pytest.raises(RefusalError, match="streamed to a file"):
        other.errors()


def test_a_release_that_failed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    release = RELEASES["one number"]()
    monkeypatch.setattr(type(release._engine), "statistics", lambda *_: iter([None]))
    with pytest.raises(Exception, match="failed with."):
        release.to_arrow()
    with pytest.raises(RefusalError, match="cannot be copied"):
        pickle.dumps(release)


def test_noise_for_tests_is_told_elsewhere_too() -> None:
    from sfumato.noise import SeededWords

    release = table().agg(n=sf.count_units()).release(epsilon=1, unsafe_words=SeededWords(1))
    release.to_arrow()
    assert pickle.loads(pickle.dumps(release)).receipt().unsafe_words


def test_what_is_kept_comes_back_to_the_last_bit():
    odd = [0.1, 1 / 3, -0.0, float("inf"), 5e-324, (1, [2, None, True]), "\u202e", b"\x00"]
    array = np.array([[np.nan, -0.0], [1e308, 5e-324]])
    made = deserialize(serialize({"odd": odd, "array": array, "none": array[:0]}))
    assert repr(made["odd"]) == repr(odd) and made["array"].tobytes() == array.tobytes()
    assert made["none"].shape == (0, 2)
    batch = pa.record_batch({"k": ["a"]})
    for one in (batch, batch.slice(0, 0), batch.select([]), pa.table(batch)):
        back = deserialize(serialize(one))
        assert type(back) is type(one) and back.equals(one) and back.num_rows == one.num_rows


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, np.array([object()]), np.int64(1)])
def test_nothing_else_is_kept(value):
    with pytest.raises((TypeError, ValueError)):
        serialize(value)


# Noisy numbers that are kept: to the last bit, and nothing else.


def test_rows_that_a_table_is_a_part_of_are_not_kept():
    whole = pa.table({"k": ["a hidden key", "A", "another hidden key"]})
    for part in (whole.slice(1, 1), whole.to_batches()[0].slice(1, 1)):
        kept = serialize({"keys": part})
        assert deserialize(kept)["keys"].to_pydict() == {"k": ["A"]}
        (written,) = re.findall(rb'"(?:table|batch)":"([^"]+)"', kept)
        assert b"hidden" not in base64.b64decode(written)
