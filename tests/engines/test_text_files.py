"""Files of CSV and JSON: types that are inferred are printed, and give the same rows when they are declared."""

import ast
import csv
import io
import json
import random
import re
import tomllib
from contextlib import closing

import pandas
import pytest

import sfumato as sf
from sfumato.cli.sql_command import _types
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import ColumnError, EngineError, QueryError, SqlError

pytestmark = pytest.mark.noise_cannot_matter("rows are looked at before any noise")

COUNT = 40


def lines(row, header="id,v", end="\n"):
    return end.join([header] * bool(header) + [row(i) for i in range(COUNT)]) + end


def by_pandas(**options):
    frame = pandas.DataFrame(
        {"id": range(COUNT), "v": [1.5, None] * (COUNT // 2), "town": ["A, B", "C"] * (COUNT // 2)}
    )
    return frame.to_csv(**options)


def written(**options):
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n", **options)
    writer.writerows([["id", "v"], *([i, f'said "{i}", or ä'] for i in range(COUNT))])
    return target.getvalue()


def day(i):
    return 1 + i % 28, 1 + i % 12


DATES = {
    "d/m/Y": "{0:02d}/{1:02d}/2020",
    "m/d/Y": "{1:02d}/{0:02d}/2020",
    "d-m-Y": "{0:02d}-{1:02d}-2020",
    "m-d-Y": "{1:02d}-{0:02d}-2020",
    "d.m.Y": "{0:02d}.{1:02d}.2020",
    "m.d.Y": "{1:02d}.{0:02d}.2020",
    "d/m/y": "{0:02d}/{1:02d}/20",
    "d.m.y": "{0}.{1}.20",
    "Y/m/d": "2020/{1:02d}/{0:02d}",
    "Y.m.d": "2020.{1:02d}.{0:02d}",
    "Y-m-d": "2020-{1:02d}-{0:02d}",
    "y-m-d": "20-{1:02d}-{0:02d}",
    "d b Y": "{0} Mar 2020",
    "d-b-y": "{0:02d}-Mar-20",
    "b d, Y": '"Mar {0}, 2020"',
    "B d, Y": '"March {0}, 2020"',
    "blanks": " {0:02d}/{1:02d}/2020",
}
TIMES = {
    "T": "2020-{1:02d}-{0:02d}T10:20:30",
    "iso": "2020-{1:02d}-{0:02d} 10:20:30.25",
    "Z": "2020-{1:02d}-{0:02d}T10:20:30Z",
    "offset": "2020-{1:02d}-{0:02d} 10:20:30+02:00",
    "d/m/Y H:M": "{0:02d}/{1:02d}/2020 10:20",
    "d.m.Y H:M:S": "{0:02d}.{1:02d}.2020 10:20:30",
    "m/d/Y I:M:S p": "{1}/{0}/2020 1:20:30 PM",
    "d-m-Y f": "{0:02d}-{1:02d}-2020 10:20:30.125",
    "b d, Y H:M": '"Mar {0}, 2020 10:20"',
}
CSV = {
    **{f"date {name}": lines(lambda i, f=form: f"{i},{f.format(*day(i))}") for name, form in (DATES | TIMES).items()},
    "time of day": lines(lambda i: f"{i},10:{i:02d}:00"),
    "hours": lines(lambda i: f"{i},9:{i:02d}"),
    "decimal comma": lines(lambda i: f"{i};{i},5", "id;v"),
    "thousands": lines(lambda i: f'{i},"{i + 1},000"'),
    "exponents": lines(lambda i: f"{i},{i}e-3"),
    "infinite": lines(lambda i: f"{i},{['inf', '-inf', 'nan', '1'][i % 4]}"),
    "truth": lines(lambda i: f"{i},{['true', 'false'][i % 2]}"),
    "truth of R": lines(lambda i: f"{i},{['TRUE', 'FALSE', 'NA'][i % 3]}"),
    "yes": lines(lambda i: f"{i},{['yes', 'no'][i % 2]}"),
    "0 and 1": lines(lambda i: f"{i},{i % 2}"),
    "leading zeros": lines(lambda i: f"{i},{i:05d}"),
    "large whole numbers": lines(lambda i: f"{10**20 + i},{2**63 + i}"),
    "larger ones": lines(lambda i: f"{i},{10**45 + i}"),
    "NA": lines(lambda i: f"{i},{'NA' if i % 3 else i}"),
    "NULL": lines(lambda i: f"{i},{'NULL' if i % 3 else i / 2}"),
    "NA in texts": lines(lambda i: f"{i},{'NA' if i % 3 else 'DE'}"),
    "NA before dates": lines(lambda i: f"{i},{'NA' if i < 5 else f'{1 + i % 28}/3/2020'}"),
    "no value": lines(lambda i: f"{i},"),
    "mixed": lines(lambda i: f"{i},{[1, 'a', '2020-01-01'][i % 3]}"),
    "minimal quotes": written(),
    "all quoted": written(quoting=csv.QUOTE_ALL),
    "texts quoted": written(quoting=csv.QUOTE_NONNUMERIC),
    "single quotes": written(quoting=csv.QUOTE_ALL, quotechar="'"),
    "semicolons": written(delimiter=";"),
    "tabs": written(delimiter="\t"),
    "bars": written(delimiter="|"),
    "several lines": lines(lambda i: f'{i},"a\nb{i}"'),
    "CR LF": lines(lambda i: f"{i},{i}", end="\r\n"),
    "BOM": "\ufeff" + lines(lambda i: f"{i},{i}"),
    "blank lines": lines(lambda i: f"{i},{i}\n"),
    "one column": lines(str, "id"),
    "index of pandas": by_pandas(),
    "no index": by_pandas(index=False),
    "index with a name": by_pandas(index_label="row"),
    "NA of pandas": by_pandas(na_rep="NA", sep=";", decimal=","),
    "numbered by pandas": pandas.DataFrame([[i, 1.5, 2] for i in range(COUNT)]).to_csv(),
    "write.csv": lines(lambda i: f'"{i + 1}",{i},"x{i % 3}",NA', '"","id","v","w"'),
    "all text of R": lines(lambda i: f'"a{i}","x{i % 3}"', '"id","v"'),
    "trailing comma": lines(lambda i: f"{i},5,", "id,v,"),
    "trailing comma in rows": lines(lambda i: f"{i},5,"),
    "trailing comma in the header": lines(lambda i: f"{i},5", "id,v,"),
    "several trailing commas": lines(lambda i: f"{i},5,,,", "id,v,,,"),
    "blanks in the header": lines(lambda i: f"{i}, 5", " id , v"),
    "no header": lines(lambda i: f"{i},5,a", ""),
    "no header, semicolons": lines(lambda i: f"{i};5;a", ""),
    "lines before the header": "Report\n2020\n\n" + lines(lambda i: f"{i},5"),
    "years as names": lines(lambda i: f"{i},5,6", "id,2019,2020"),
    "names in quotes": lines(lambda i: f"{i},5", '"the ""id""","it\'s, all"'),
    "more than twelve columns": lines(lambda i: ",".join(f"{i + k}" for k in range(30)), ",".join(f"c{k}" for k in range(30))),
}  # fmt: skip
OBJECTS = {
    "struct": lambda i: {"id": i, "home": {"planet": "Hoth"}},
    "list": lambda i: {"id": i, "v": [1, 2, i]},
    "nested list": lambda i: {"id": i, "v": [[1], [2, i], None]},
    "list of structs": lambda i: {"id": i, "v": [{"a": i, "b": "x"}]},
    "deep": lambda i: {"id": i, "v": {"a": [{"b": {"c": [i]}}]}},
    "mixed": lambda i: {"id": i, "v": [1, "a", {"x": 1}, None][i % 4]},
    "mixed list": lambda i: {"id": i, "v": [1, "a", None]},
    "map": lambda i: {"id": i, "v": {f"k{i}": 1, f"q{i}": 2}},
    "zone": lambda i: {"id": i, "v": f"2020-01-{1 + i % 28:02d}T10:00:00Z"},
    "timestamp": lambda i: {"id": i, "v": f"2020-01-{1 + i % 28:02d} 10:00:00"},
    "date": lambda i: {"id": i, "v": f"2020-01-{1 + i % 28:02d}"},
    "d/m/Y": lambda i: {"id": i, "v": "{:02d}/{:02d}/2020".format(*day(i))},
    "d-m-Y in a struct": lambda i: {"id": i, "v": {"d": "{:02d}-{:02d}-2020".format(*day(i))}},
    "date in a struct": lambda i: {"id": i, "v": {"d": f"2020-01-{1 + i % 28:02d}"}},
    "numbers as texts": lambda i: {"id": str(i), "v": f"00{i}"},
    "truth": lambda i: {"id": i, "v": i % 2 == 0},
    "no value": lambda i: {"id": i, "v": None},
    "large": lambda i: {"id": 2**63 + i, "v": 10**30 + i},
    "real": lambda i: {"id": i, "v": i / 4},
    "uuid": lambda i: {"id": i, "v": f"00000000-0000-0000-0000-{i:012d}"},
    "odd names": lambda i: {"id": i, "a b, c": {"x y": 1, "size": i, "DATE": "2020-01-01"}},
    "fields that lack": lambda i: {"id": i} | ({"v": {"a": 1}} if i % 2 else {"w": [1]}),
}
FORMS = {f"csv, {name}": (".csv", text) for name, text in CSV.items()} | {
    f"json, {name}": (".ndjson", lines(lambda i, o=one: json.dumps(o(i)), ""))
    for name, one in OBJECTS.items()
}


def rows_of(engine):
    """Return the types of columns, and the rows in one order; NaN equals NaN here."""
    types = {name: column.type_name for name, column in engine.schema().items()}
    with engine.rows(list(types)) as (session, relation):
        return types, sorted(map(repr, session.execute(f"SELECT * FROM {relation}").fetchall()))


def declared(engine):
    """Return the types that the note of a source says to declare, as Python, SQL and a catalog have them."""
    (note,) = (one for one in engine.notes if "Declare them" in one)
    python = re.search(r"types=(\{.*?\})(;|$)", note)
    sql = re.search(r"OPTIONS \(types = '(.*)'\)$", note)
    return ast.literal_eval(python[1]), sql[1].replace("''", "'")


@pytest.mark.parametrize("name", FORMS)
def test_what_is_suggested_is_what_was_used(name, tmp_path):
    """In Python, in OPTIONS of SQL, on the command line and in a catalog: the same values in each row."""
    ending, text = FORMS[name]
    path = tmp_path / f"rows{ending}"
    path.write_bytes(text.encode())
    inferred = DuckDBEngine.open(path)
    types, option = declared(inferred)
    found = rows_of(inferred)
    assert len(found[1]) == COUNT
    assert rows_of(DuckDBEngine.open(path, types=types)) == found
    assert rows_of(DuckDBEngine.open(path, types=_types(option))) == found


@pytest.mark.parametrize(
    "name", ["csv, date b d, Y", "csv, index of pandas", "csv, names in quotes", "json, odd names"]
)
def test_each_way_to_declare_types_reads_the_same(name, tmp_path):
    """And in each the explanation of what is not declared says how, in its own form."""
    ending, text = FORMS[name]
    path = tmp_path / f"rows{ending}"
    path.write_bytes(text.encode())
    unit = next(column for column in DuckDBEngine.open(path).schema() if "id" in column)
    types, _ = declared(DuckDBEngine.open(path))
    spelled = '"' + unit.replace('"', '""') + '"'
    query = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = {}{}) COUNT(*) AS n FROM '{}'"
    silent = sf.sql(query.format(spelled, "", path))
    (said,) = (re.search(r"types = '.*'", line)[0] for line in silent.plan.notes if "Declare them" in line)
    sql = sf.sql(query.format(spelled, f", {said}", path))
    assert not any("Declare" in line for line in sql.plan.notes)
    (tmp_path / "catalog.toml").write_text(
        f'[tables.t]\nsource = "rows{ending}"\nprivacy_unit = {json.dumps(unit)}\n'
    )
    (note,) = (n for n in sf.catalog(tmp_path / "catalog.toml").table("t").notes if "Declare them" in n)
    toml = note.partition("Declare them: ")[2]
    assert tomllib.loads(toml)["types"] == types
    with (tmp_path / "catalog.toml").open("a") as file:
        file.write(f"{toml}\n")
    table = sf.catalog(tmp_path / "catalog.toml").table("t")
    assert not table.notes and rows_of(table._engine) == rows_of(DuckDBEngine.open(path, types=types))


def test_notes_of_an_older_reading_would_fail(tmp_path):
    """The seeded fault of this file: without its format the column of dates is empty."""
    path = tmp_path / "rows.csv"
    path.write_text(CSV["date d/m/Y"])
    types, _ = declared(DuckDBEngine.open(path))
    plain = {name: kind.partition(" %")[0] for name, kind in types.items()}
    assert plain == {"id": "BIGINT", "v": "DATE"} != types
    assert rows_of(DuckDBEngine.open(path, types=plain)) != rows_of(DuckDBEngine.open(path))


# Headers.


@pytest.mark.parametrize(
    ("name", "names"),
    {
        "index of pandas": ["column0", "id", "v", "town"],
        "write.csv": ["column0", "id", "v", "w"],
        "numbered by pandas": ["column0", "0", "1", "2"],
        "trailing comma": ["id", "v", "column2"],
        "trailing comma in rows": ["id", "v"],
        "blanks in the header": ["id", "v"],
        "all text of R": ["id", "v"],
        "no header": ["column0", "column1", "column2"],
        "lines before the header": ["id", "v"],
        "years as names": ["id", "2019", "2020"],
        "single quotes": ["id", "v"],
        "names in quotes": ['the "id"', "it's, all"],
    }.items(),
)
def test_names_of_columns(name, names, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(CSV[name].encode())
    assert list(DuckDBEngine.open(path).schema()) == names
    some = {names[-1]: "VARCHAR"}
    if name != "no header":
        assert list(DuckDBEngine.open(path, types=some).schema()) == names


def test_what_pandas_and_r_write_is_released(tmp_path):
    for name in ("index of pandas", "write.csv", "trailing comma", "blanks in the header"):
        path = tmp_path / "rows.csv"
        path.write_text(CSV[name])
        for types in (None, {"id": "BIGINT", "v": "VARCHAR"}):
            table = sf.scan(path, privacy_unit="id", types=types).bound(rows=1)
            made = table.agg(n=sf.count()).release(epsilon=1e6).to_arrow()
            assert made["n"].to_pylist() == [COUNT]


@pytest.mark.parametrize("at", [1, *(pytest.param(at, marks=pytest.mark.long) for at in (5, COUNT + 1))])
def test_a_row_that_is_hostile_changes_no_other_row(at, tmp_path):
    """With declared types, of which nothing follows from rows, and without texts of several lines."""
    path, types = tmp_path / "rows.csv", {"id": "BIGINT", "v": "DATE %d/%m/%Y"}
    text = CSV["date d/m/Y"].encode()
    path.write_bytes(text)
    expected = rows_of(DuckDBEngine.open(path, types=types, multiline=False))
    hostile = [
        b"id,v",
        b",",
        b"",
        b";;;;;",
        b"'a,b'",
        b'"',
        b'"a',
        b'1,"',
        b"\xff,\xfe",
        b"1;2|3\t4",
        b"\xef\xbb\xbf1,2",
    ]
    hostile += [b"column0,column1", b"1,2,3,4", b'"id","v"', b"'id','v'", b"x" * 70_000, b"a,b\r"]
    for one in hostile:
        before = text.split(b"\n")
        path.write_bytes(b"\n".join([*before[:at], one, *before[at:]]))
        _, found = rows_of(DuckDBEngine.open(path, types=types, multiline=False))
        assert len(found) <= COUNT + 1
        assert all(found.count(row) >= expected[1].count(row) for row in expected[1]), one


def test_a_row_that_is_hostile_moves_no_header(tmp_path):
    """Also in a file without one, but for its first line, and in one whose header is not first."""
    path = tmp_path / "rows.csv"
    files = {
        "no header": {"column0": "BIGINT", "column1": "BIGINT", "column2": "VARCHAR"},
        "index of pandas": {"column0": "BIGINT", "id": "BIGINT", "v": "DOUBLE", "town": "VARCHAR"},
        "lines before the header": {"id": "BIGINT", "v": "BIGINT"},
    }
    for name, types in files.items():
        text = CSV[name].encode().split(b"\n")
        path.write_bytes(b"\n".join(text))
        names, expected = rows_of(DuckDBEngine.open(path, types=types, multiline=False))
        empty, header = b"," * (len(types) - 1), ",".join(types).encode()
        for one in (empty, b"", header, header + b",x", b"'" + header + b"'", b"x;" * 9, b"\xff" + empty):
            path.write_bytes(b"\n".join([*text[:8], one, *text[8:]]))
            found = rows_of(DuckDBEngine.open(path, types=types, multiline=False))
            assert found[0] == names and len(found[1]) <= COUNT + 1
            assert all(found[1].count(row) >= expected.count(row) for row in expected), (name, one)


def test_a_missing_value_in_the_first_row_makes_it_no_header(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(lines(lambda i: f"{i / 2},{'NA' if i % 3 == 0 else i},{'NA' if i % 4 == 0 else i}", ""))
    assert len(rows_of(DuckDBEngine.open(path))[1]) == COUNT


def test_files_have_layouts_of_their_own(tmp_path):
    (tmp_path / "a.csv").write_text("id,v\n1,2\n")
    (tmp_path / "b.csv").write_text("V;ID\n4;3\n")
    found = rows_of(DuckDBEngine.open(str(tmp_path / "*.csv"), types={"id": "BIGINT", "v": "BIGINT"}))
    assert found == ({"id": "BIGINT", "v": "BIGINT"}, ["(1, 2)", "(3, 4)"])
    (tmp_path / "b.csv").write_text("id,w\n4,3\n")
    with pytest.raises(EngineError, match="give all files one header"):
        DuckDBEngine.open(str(tmp_path / "*.csv"))


# Encodings.

TOWNS = ["Köln", "Genève", "Łódź", "Αθήνα", "東京", "Bogotá"]
ENCODINGS = [
    "latin-1",
    "cp1252",
    "iso-8859-15",
    "utf-16",
    "utf-16-le",
    "utf-8",
    "UTF8",
    "cp1250",
    "shift_jis",
    "gb18030",
    "koi8-r",
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_texts_in_another_encoding(encoding, tmp_path):
    towns = [town for town in TOWNS if town.encode(encoding, "ignore").decode(encoding) == town] or ["Москва"]
    path = tmp_path / "rows.csv"
    path.write_bytes(
        lines(lambda i: f'{i},"{towns[i % len(towns)]}"', "id,größe" if "Köln" in towns else "id,v").encode(
            encoding
        )
    )
    expected = sorted(repr((i, towns[i % len(towns)])) for i in range(COUNT))
    for types in (None, {"id": "BIGINT"}):
        engine = DuckDBEngine.open(path, types=types, encoding=encoding)
        assert rows_of(engine)[1] == expected
    query = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, encoding = '{encoding}', max_groups_contributed = 1, delta = 1e-6) town, COUNT(*) AS n FROM '{path}' GROUP BY town"
    name = list(rows_of(DuckDBEngine.open(path, encoding=encoding))[0])[1]
    assert sf.sql(query.replace("town", f'"{name}"')).plan
    source = {"source": str(path), "privacy_unit": "id", "encoding": encoding}
    assert rows_of(sf.catalog({"tables": {"t": source}}).table("t")._engine)[1] == expected


@pytest.mark.parametrize(
    "encoding", ["cp1252", "shift_jis", "gb18030", "euc_kr", "big5", "utf-16-le", "utf-8"]
)
def test_wrong_bytes_of_a_line_are_missing_and_change_no_other_line(encoding, tmp_path):
    path, chance = tmp_path / "rows.csv", random.Random(1)
    for _ in range(5):
        wrong = bytes(chance.randrange(128, 256) for _ in range(chance.randrange(1, 9)))
        if encoding == "utf-16-le":
            wrong = b"".join(
                chance.choice([b"\x00\xd8", b"\x0a\xd8", b"\x00\xdc", b"a\x00"]) for _ in range(5)
            )
        end = "\n".encode(encoding)
        text = lines(lambda i: f"{i},a{i}").encode(encoding)
        path.write_bytes(text + "99,".encode(encoding) + wrong + end + "100,b".encode(encoding) + end)
        found = rows_of(DuckDBEngine.open(path, types={"id": "BIGINT"}, encoding=encoding))[1]
        assert {repr((i, f"a{i}")) for i in range(COUNT)} | {repr((100, "b"))} <= set(found)


def test_what_is_not_utf_8_is_said(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(lines(lambda i: f"{i},{TOWNS[0]}").encode("latin-1"))
    (note,) = (one for one in DuckDBEngine.open(path).notes if "encoding=" in one)
    assert "not UTF-8" in note
    given = re.search(r"encoding='([^']+)'", note)[1]
    assert rows_of(DuckDBEngine.open(path, encoding=given))[1][0] == repr((0, TOWNS[0]))
    path.write_bytes(lines(lambda i: f"{i},{i}", "id,größe").encode("latin-1"))
    for types in (None, {"id": "BIGINT"}):
        with pytest.raises(EngineError, match="header.*not UTF-8, in column 2. Write encoding='latin-1'"):
            DuckDBEngine.open(path, types=types)


@pytest.mark.parametrize(
    "name",
    [
        "latin-one",
        "utf-7",
        "utf-32",
        "hz",
        "iso2022_jp",
        "cp037",
        "rot13",
        "punycode",
        "unicode_escape",
        "",
        3,
    ],
)
def test_an_encoding_that_is_none(name, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id\n1\n")
    with pytest.raises(QueryError, match="which is no encoding of CSV"):
        sf.scan(path, privacy_unit="id", encoding=name)


def test_an_encoding_is_of_csv(tmp_path):
    path = tmp_path / "rows.ndjson"
    path.write_text('{"id": 1}\n')
    with pytest.raises(QueryError, match="encoding= says how CSV is written"):
        sf.scan(path, privacy_unit="id", encoding="latin-1")
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, encoding = 3) COUNT(*) AS n FROM t"
    with pytest.raises(SqlError, match="encoding = 'latin-1'"):
        sf.sql(text, tables={"t": str(path)})


# Types that are declared.


@pytest.mark.parametrize(
    ("kind", "told"),
    {
        "DATE %d/%Q/%Y": "no format of strptime",
        "BIGINT %d": "only DATE, TIME and TIMESTAMP have a format",
        "TIMESTAMP %d/%m/%Y %H:%M %z": "which has a time zone. Write 'TIMESTAMPTZ'",
        "STRUCT(a BIGINT)": "only columns of JSON have",
        "BIGINT[]": "only columns of JSON have",
        "DATE), (1": "no type",
        "STRUCT(a BIGINT": "no type",
        "BIGINT)": "no type",
    }.items(),
)
def test_a_type_that_is_none_of_csv(kind, told, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,d\n1,2\n")
    with pytest.raises(QueryError, match=re.escape(told)):
        sf.scan(path, privacy_unit="id", types={"id": "BIGINT", "d": kind})


def test_a_time_of_day_has_a_format(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,d\n1,10:30 PM\n")
    found = rows_of(DuckDBEngine.open(path, types={"id": "BIGINT", "d": "TIME %I:%M %p"}))
    assert found == ({"id": "BIGINT", "d": "TIME"}, ["(1, datetime.time(22, 30))"])


def test_a_format_in_pandas_and_sqlite(tmp_path):
    import sqlite3

    frame = pandas.DataFrame({"id": [1, 2], "d": pandas.Series(["31/12/2020", "x"], dtype=object)})
    with closing(sqlite3.connect(tmp_path / "rows.sqlite")) as stored, stored:
        stored.execute("CREATE TABLE t (id INTEGER, d TEXT)")
        stored.executemany("INSERT INTO t VALUES (?, ?)", [(1, "31/12/2020"), (2, "x")])
    for source in (frame, str(tmp_path / "rows.sqlite") + "/t"):
        found = rows_of(DuckDBEngine.open(source, types={"d": "DATE %d/%m/%Y"}))
        assert found == ({"id": "BIGINT", "d": "DATE"}, ["(1, datetime.date(2020, 12, 31))", "(2, None)"])


def test_a_note_of_pandas_says_what_was_used():
    frame = pandas.DataFrame(
        {"id": [1], "a": pandas.Series(["x"], dtype=object), "b": pandas.Series(["2"], dtype=object)}
    )
    engine = DuckDBEngine.open(frame)
    (note,) = engine.notes
    types = ast.literal_eval(re.search(r"types=(\{.*?\})(;|$)", note)[1])
    assert types == {"a": "VARCHAR", "b": "VARCHAR"}
    assert rows_of(DuckDBEngine.open(frame, types=types)) == rows_of(engine)


def test_dummy_rows_need_declared_types_and_say_which(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(CSV["date d/m/Y"])
    with pytest.raises(QueryError, match="made-up rows follow") as raised:
        sf.scan(path, privacy_unit="id").dummy()
    types = ast.literal_eval(re.search(r"types=(\{.*?\})$", str(raised.value))[1])
    assert sf.scan(path, privacy_unit="id", types=types).dummy().schema["v"].type_name == "DATE"
    source = {"source": str(path), "privacy_unit": "id"}
    catalog = sf.catalog({"tables": {"t": source}})
    with pytest.raises(QueryError, match=r"Declare the types that catalog\.table\('t'\)\.notes says"):
        catalog.dummy()
    given = tomllib.loads(catalog.table("t").notes[0].partition("Declare them: ")[2])["types"]
    assert given == types
    assert sf.catalog({"tables": {"t": source | {"types": given}}}).dummy()


def test_bounds_of_a_column_of_texts_say_which_types_to_declare(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,day,wage\n1,31/12/2020,12 EUR\n")
    source = {"source": str(path), "privacy_unit": "id", "columns": {"wage": {"lower": 0, "upper": 9}}}
    with pytest.raises(QueryError, match="bounds are of numbers") as raised:
        sf.catalog({"tables": {"t": source}}).table("t")
    types = tomllib.loads(str(raised.value).partition("declare ")[2])["types"]
    table = sf.catalog({"tables": {"t": source | {"types": types}}}).table("t")
    assert types == {"id": "BIGINT", "day": "DATE %d/%m/%Y", "wage": "DOUBLE"}
    assert rows_of(table._engine)[1] == ["(1, datetime.date(2020, 12, 31), None)"]


def test_a_type_for_a_column_that_is_not_there(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,v\n1,2\n")
    with pytest.raises(ColumnError, match="there is no column 'w'.*The columns are: id, v"):
        sf.scan(path, privacy_unit="id", types={"id": "BIGINT", "w": "BIGINT"})
    path.write_text("")
    for types in (None, {"id": "BIGINT"}):
        with pytest.raises((EngineError, ColumnError)):
            sf.scan(path, privacy_unit="id", types=types)
