"""Files of CSV and JSON: what is inferred is printed, and gives the same rows when declared; no line changes another."""

import ast
import csv
import gzip
import io
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import duckdb
import pandas
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cli.sql_command import _types
from sfumato.engines.duckdb import text_lines
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import ColumnError, EngineError, QueryError
from sfumato.query import sizes

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


# Texts, and the types that are inferred from them.
TIMES = {
    "{0:02d}/{1:02d}/2020": "DATE %d/%m/%Y",
    "{1:02d}/{0:02d}/2020": "DATE %m/%d/%Y",
    "{0}.{1}.20": "DATE %d.%m.%y",
    "2020-{1:02d}-{0:02d}": "DATE",
    "20-{1:02d}-{0:02d}": "DATE %y-%m-%d",
    '"March {0}, 2020"': "DATE %B %d; %Y",
    "2020-{1:02d}-{0:02d} 10:20:30+02:00": "TIMESTAMP WITH TIME ZONE",
    "{1}/{0}/2020 1:20:30 PM": "TIMESTAMP %m/%d/%Y %I:%M:%S %p",
    "10:{0:02d}:00": "TIME",
}
V = "BIGINT id, {} v"
CSV = {
    **{form: (lines(lambda i, f=form: f"{i},{f.format(*day(i))}"), V.format(kind)) for form, kind in TIMES.items()},
    "decimal comma": (lines(lambda i: f"{i};{i},5", "id;v"), V.format("VARCHAR")),
    "truth of R": (lines(lambda i: f"{i},{['TRUE', 'FALSE', 'NA'][i % 3]}"), V.format("BOOLEAN")),
    "large": (lines(lambda i: f"{10**20 + i},{2**63 + i}"), "HUGEINT id, UBIGINT v"),
    "mixed": (lines(lambda i: f"{i},{[1, 'a', '2020-01-01'][i % 3]}"), V.format("VARCHAR")),
    "single quotes": (written(quoting=csv.QUOTE_ALL, quotechar="'"), V.format("VARCHAR")),
    "CR LF": (lines(lambda i: f"{i},{i}", end="\r\n"), V.format("BIGINT")),
    "BOM": ("\ufeff" + lines(lambda i: f"{i},{i}"), V.format("BIGINT")),
    "index of pandas": (by_pandas(), "BIGINT column0, BIGINT id, DOUBLE v, VARCHAR town"),
    "NA of pandas": (by_pandas(na_rep="NA", sep=";", decimal=","), "BIGINT column0, BIGINT id, VARCHAR v, VARCHAR town"),
    "write.csv": (lines(lambda i: f'"{i + 1}",{i},"x{i % 3}",NA', '"","id","v","w"'), "BIGINT column0, BIGINT id, VARCHAR v, VARCHAR w"),
    "blanks in the header": (lines(lambda i: f"{i}, 5", " id , v"), V.format("BIGINT")),
    "no header": (lines(lambda i: f"{i},5,a", ""), "BIGINT column0, BIGINT column1, VARCHAR column2"),
    "lines before the header": ("Report\n2020\n\n" + lines(lambda i: f"{i},5"), V.format("BIGINT")),
    "names in quotes": (lines(lambda i: f"{i},5", '"the ""id""","it\'s, all"'), "BIGINT the \"id\", BIGINT it's; all"),
}  # fmt: skip
OBJECTS = {
    "struct": (lambda i: {"id": i, "v": {"planet": "Hoth"}}, V.format("STRUCT(planet VARCHAR)")),
    "mixed": (lambda i: {"id": i, "v": [1, "a", {"x": 1}, None][i % 4]}, V.format("JSON")),
    "d/m/Y": (lambda i: {"id": i, "v": "{:02d}/{:02d}/2020".format(*day(i))}, V.format("DATE %d/%m/%Y")),
    "odd names": (lambda i: {"id": i, "a b, c": {"x y": 1, "size": i}}, 'BIGINT id, STRUCT("x y" BIGINT; size BIGINT) a b; c'),
}  # fmt: skip
FORMS = {name: (".csv", text, kinds) for name, (text, kinds) in CSV.items()} | {
    f"json, {name}": (".ndjson", lines(lambda i, o=one: json.dumps(o(i)), ""), kinds)
    for name, (one, kinds) in OBJECTS.items()
}


def file_of(folder, name):
    ending, text, _ = FORMS[name]
    path = folder / f"rows{ending}"
    path.write_bytes(text.encode())
    return path


def rows_of(engine):
    """Return the types of columns, and the rows in one order; NaN equals NaN here."""
    types = {name: column.type_name for name, column in engine.schema().items()}
    with engine.rows(list(types)) as (session, relation):
        return types, sorted(map(repr, session.execute(f"SELECT * FROM {relation}").fetchall()))


def opened(path, types=None, **options):
    return rows_of(DuckDBEngine.open(path, types=types, **options))


def declared(engine):
    """Return the types that the note of a source says to declare, as Python and SQL have them."""
    (note,) = (one for one in engine.notes if "Declare them" in one)
    python = re.search(r"types=(\{.*?\})(;|$)", note)
    sql = re.search(r"OPTIONS \(types = '(.*)'\)$", note)
    return ast.literal_eval(python[1]), sql[1].replace("''", "'")


def check_suggestion(path, kinds):
    inferred = DuckDBEngine.open(path)
    types, option = declared(inferred)
    assert [f"{kind} {name}".replace(",", ";") for name, kind in types.items()] == kinds.split(", "), types
    found = rows_of(inferred)
    assert len(found[1]) == COUNT
    assert opened(path, types) == found == opened(path, _types(option))


def test_what_is_suggested_is_what_was_used(tmp_path):
    for name, (_, _, kinds) in FORMS.items():
        check_suggestion(file_of(tmp_path, name), kinds)


WRONG = {
    "no column": ({"y": "DOUBLE"}, "there is no column 'y'.*The columns are: id, d"),
    "more than a type": ({"d": "INT); DROP TABLE t"}, "not a type"),
    "of JSON": ({"d": "STRUCT(a INT)"}, "only columns of JSON have"),
    "twice": ({"d": "INT", "D": "INT"}, "twice"),
    "no format": ({"d": "DATE %d/%Q/%Y"}, "not a format of strptime"),
    "a number's format": ({"d": "BIGINT %d"}, "only DATE, TIME and TIMESTAMP have a format"),
}


def test_types_that_are_none(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,d\n1,2\n")
    for types, told in WRONG.values():
        with pytest.raises((QueryError, ColumnError), match=told):
            sf.scan(path, privacy_unit="id", types=types)
    with pytest.raises(QueryError, match="declares its own types"):
        sf.scan(pa.table({"id": [1]}), privacy_unit="id", types={"id": "INT"})


def test_formats_of_declared_types(tmp_path):
    import sqlite3

    path = tmp_path / "rows.csv"
    path.write_text("id,d\n1,10:30 PM\n")
    found = opened(path, {"ID": "int", "d": "TIME %I:%M %p"})
    assert found == ({"id": "INTEGER", "d": "TIME"}, ["(1, datetime.time(22, 30))"])
    frame = pandas.DataFrame({"id": [1, 2], "d": pandas.Series(["31/12/2020", "x"], dtype=object)})
    with closing(sqlite3.connect(tmp_path / "rows.sqlite")) as stored, stored:
        stored.execute("CREATE TABLE t (id INTEGER, d TEXT)")
        stored.executemany("INSERT INTO t VALUES (?, ?)", [(1, "31/12/2020"), (2, "x")])
    for source in (frame, str(tmp_path / "rows.sqlite") + "/t"):
        found = opened(source, {"d": "DATE %d/%m/%Y"})
        assert found == ({"id": "BIGINT", "d": "DATE"}, ["(1, datetime.date(2020, 12, 31))", "(2, None)"])


# Types and encodings that are declared.


TOWNS = ["Köln", "Genève", "Łódź", "Αθήνα", "東京", "Bogotá"]


@pytest.mark.long
def test_texts_in_another_encoding(tmp_path):
    path = tmp_path / "rows.csv"
    for encoding in ("cp1252", "utf-16", "utf-16-le", "UTF8", "shift_jis", "gb18030", "koi8-r"):
        towns = [t for t in TOWNS if t.encode(encoding, "ignore").decode(encoding) == t] or ["Москва"]
        path.write_bytes(lines(lambda i, t=towns: f'{i},"{t[i % len(t)]}"').encode(encoding))
        expected = sorted(repr((i, towns[i % len(towns)])) for i in range(COUNT))
        for types in (None, {"id": "BIGINT"}):
            assert opened(path, types, encoding=encoding)[1] == expected
    source = {"source": str(path), "privacy_unit": "id", "encoding": encoding}
    assert rows_of(sf.catalog({"tables": {"t": source}}).table("t")._engine)[1] == expected
    options = f"epsilon = 1, privacy_unit_column = id, encoding = '{encoding}'"
    query = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) COUNT_IF(v = 'Москва') AS n FROM '{path}'"
    assert sf.sql(query).plan


def test_wrong_bytes_of_a_line_are_missing_and_change_no_other_line(tmp_path):
    path, chance = tmp_path / "rows.csv", random.Random(1)
    for encoding in ("cp1252", "shift_jis", "gb18030", "big5", "utf-16-le", "utf-8"):
        for _ in range(4):
            wrong = bytes(chance.randrange(128, 256) for _ in range(chance.randrange(1, 9)))
            if encoding == "utf-16-le":
                wrong = b"".join(chance.choices([b"\x00\xd8", b"\x0a\xd8", b"\x00\xdc", b"a\x00"], k=5))
            end = "\n".encode(encoding)
            text = lines(lambda i: f"{i},a{i}").encode(encoding)
            path.write_bytes(text + "99,".encode(encoding) + wrong + end + "100,b".encode(encoding) + end)
            found = opened(path, {"id": "BIGINT"}, encoding=encoding)[1]
            assert {repr((i, f"a{i}")) for i in range(COUNT)} | {repr((100, "b"))} <= set(found)


def test_encodings_that_are_none(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(lines(lambda i: f"{i},{TOWNS[0]}").encode("latin-1"))
    (note,) = (one for one in DuckDBEngine.open(path).notes if "encoding=" in one)
    given = re.search(r"encoding='([^']+)'", note)[1]
    assert "not UTF-8" in note and opened(path, encoding=given)[1][0] == repr((0, TOWNS[0]))
    path.write_bytes(lines(lambda i: f"{i},{i}", "id,größe").encode("latin-1"))
    with pytest.raises(EngineError, match="header.*not UTF-8, in column 2. Write encoding='latin-1'"):
        DuckDBEngine.open(path, types={"id": "BIGINT"})
    for name in ("latin-one", "utf-7", "cp037", "", 3):
        with pytest.raises(QueryError, match="which is not an encoding for CSV"):
            sf.scan(path, privacy_unit="id", encoding=name)


def test_files_have_layouts_of_their_own(tmp_path):
    (tmp_path / "a.csv").write_text("id,v\n1,2\n")
    (tmp_path / "b.csv").write_text("V;ID\n4;3\n")
    found = opened(str(tmp_path / "*.csv"), {"id": "BIGINT", "v": "BIGINT"})
    assert found == ({"id": "BIGINT", "v": "BIGINT"}, ["(1, 2)", "(3, 4)"])
    (tmp_path / "b.csv").write_text("id,w\n4,3\n")
    with pytest.raises(EngineError, match="Give all files the same header"):
        DuckDBEngine.open(str(tmp_path / "*.csv"))


@pytest.mark.long
def test_forms_of_files(tmp_path):
    text = lines(lambda i: f"{i},{i}")
    (tmp_path / "tabs.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    for path in tmp_path.iterdir():
        for types in (None, {"id": "BIGINT", "v": "BIGINT"}):
            assert opened(path, types)[1] == sorted(repr((i, i)) for i in range(COUNT))
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(text.encode() * 500)[:-30])
    with pytest.raises(EngineError) as caught:  # of the file, whatever is in its rows
        table = sf.scan(tmp_path / "broken.csv.gz", privacy_unit="id", types={"id": "BIGINT"})
        table.agg(n=sf.count_units()).release(epsilon=1).to_arrow()
    assert caught.value.__context__ is None
    for text in ('[\n{"id":1}]', ' [{"id":1}]', '{\n"id":1}'):
        (tmp_path / "rows.json").write_text(text)
        for types in (None, {"id": "BIGINT"}):
            with pytest.raises(EngineError, match="JSON with one object on each line"):
                sf.scan(tmp_path / "rows.json", privacy_unit="id", types=types)


def test_threads_share_a_table(tmp_path):
    """Each sees all rows of the columns that it reads, once, whatever others read."""
    path = tmp_path / "rows.csv"
    path.write_text("id,a,b,c\n" + "".join(f"{i},1,2,3\n" for i in range(2000)))
    relation = duckdb.sql("SELECT i AS id, 1 AS a, 2 AS b, 3 AS c FROM range(2000) t(i)")
    for source, types in ((path, dict.fromkeys(["id", "a", "b", "c"], "BIGINT")), (relation, None)):
        table = sf.scan(source, privacy_unit="id", types=types)

        def counted(column, table=table):
            plan = table.filter(f"{column} > 0").bound(rows=9).agg(n=sf.count()).plan(epsilon=1)
            (batch,) = table._engine.statistics(plan.exact, 10)
            return [v for c in batch.columns for v in c.to_pylist()]

        assert [counted(column) for column in "ab"] == [[2000]] * 2
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(counted, ["a", "b", "c"] * 3)) == [[2000]] * 9


# Whatever a line holds, no other changes: rows of 100 to 139, and hostile ones of 7.

TYPES = {"id": "BIGINT", "s": "VARCHAR", "x": "DOUBLE"}
OTHERS = [(100 + i % 40, f"g{i % 3}", float(i % 11)) for i in range(120)]
QUOTING = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]


def tried(examples: int):
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def others(path, types=TYPES, **options):
    """Return the rows that are not of the hostile one."""
    return [row for row in opened(path, types, **options)[1] if re.match(r"\(1\d\d,", row)]


EXPECTED = sorted(map(repr, OTHERS))


def csv_with(line: bytes, quoting: int, at: int = 60, rows=OTHERS, end: str = "\n") -> bytes:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n", quoting=quoting).writerows([list(TYPES), *rows])
    before = target.getvalue().encode().split(b"\n")[:-1]
    return end.encode().join([*before[:at], line, *before[at:]]) + end.encode()


CSV_LINES = {
    "carriage return": b"7,a\rb,3",
    "carriage return in quotes": b'7,"a\rb",3',
    "a row behind a carriage return": b"7,ab,3\r100,g1,5",
    "not UTF-8": b"7,a\xff\xfeb,3",
    "too many": b"7,a,3,4,5",
    "too few": b"7,a",
    "empty": b"",
    "open quote": b'7,"abc,3',
    "open quote first": b'"7,abc,3',
    "quote alone": b'"',
    "quote in the middle": b'7,a"b,3',
    "doubled and open": b'7,"a"",3',
    "long and open": b'7,"' + b"z" * 3_000_000 + b",3",
    "line break in quotes": b'7,"a\nb",3',
    "a row in quotes": b'7,"a\n100,g1,5\n",3',
    "header": b"id,s,x",
    "another delimiter": b"7;2|3\t4",
    "mark": b"\xef\xbb\xbf7,2,3",
}
JSON_LINES = {
    "malformed": b'{"id":7,"s":"a","x":3',
    "lone surrogate": b'{"id":7,"s":"\\ud800","x":3}',
    "not UTF-8": b'{"id":7,"s":"\xff","x":3}',
    "empty": b"",
    "two objects": b'{"id":7}{"id":100,"s":"g1"}',
    "deep": b'{"id":7,"s":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and open": b'{"id":7,"s":' + b"[" * 100_000,
    "twice": b'{"id":7,"id":7,"s":"a","s":3}',
    "huge number": b'{"id":7,"x":1e99999}',
    "carriage return": b'{"id":7,"s":"a"}\r{"id":100,"s":"g1"}',
}


def json_with(line: bytes, at: int = 60) -> bytes:
    objects = [json.dumps(dict(zip(TYPES, row, strict=True))).encode() for row in OTHERS]
    return b"\n".join([*objects[:at], line, *objects[at:]]) + b"\n"


@pytest.mark.long
def test_a_hostile_line_changes_no_other_row(tmp_path):
    """Of declared types nothing follows from rows; a hostile line is in the middle, or first."""
    for name, line in CSV_LINES.items():
        quoting = QUOTING["open" in name or "quotes" in name]
        (tmp_path / "rows.csv").write_bytes(csv_with(line, quoting))
        assert others(tmp_path / "rows.csv") == EXPECTED, name
        if name in ("open quote", "quote alone", "doubled and open", "empty", "header", "mark"):
            (tmp_path / "rows.csv").write_bytes(csv_with(line, QUOTING[0], 1))
            assert others(tmp_path / "rows.csv", multiline=False) == EXPECTED, name
    for name, line in JSON_LINES.items():
        if len(line) < 1 << 20:
            (tmp_path / "rows.json").write_bytes(json_with(line))
            assert others(tmp_path / "rows.json") == EXPECTED, name


@pytest.mark.long
def test_a_hostile_line_moves_no_header(tmp_path):
    """Also in a file without one, but for its first line, and in one whose header is not first."""
    path = tmp_path / "rows.csv"
    files = {
        "no header": {"column0": "BIGINT", "column1": "BIGINT", "column2": "VARCHAR"},
        "index of pandas": {"column0": "BIGINT", "id": "BIGINT", "v": "DOUBLE", "town": "VARCHAR"},
        "lines before the header": {"id": "BIGINT", "v": "BIGINT"},
    }
    for name, types in files.items():
        text = CSV[name][0].encode().split(b"\n")
        path.write_bytes(b"\n".join(text))
        names, expected = opened(path, types, multiline=False)
        empty, header = b"," * (len(types) - 1), ",".join(types).encode()
        for one in (empty, b"", header, header + b",x", b"'" + header + b"'", b"x;" * 9, b"\xff" + empty):
            path.write_bytes(b"\n".join([*text[:8], one, *text[8:]]))
            found = opened(path, types, multiline=False)
            assert found[0] == names and len(found[1]) <= COUNT + 1
            assert all(found[1].count(row) >= expected.count(row) for row in expected), (name, one)


def test_a_text_in_json_that_is_not_utf8_is_null_as_anywhere_else(tmp_path):
    texts = [
        b'{"id":1,"s":"\xff","x":1}',
        rb'{"id":2,"s":"\ud800","x":1}',
        rb'{"id":3,"s":"\ud83d\ude00 \uD83D","x":1}',
        rb'{"id":4,"s":"\ud83d\ude00","x":1}',
        rb'{"id":5,"s":"\\ud800","x":1}',
        b'{"id":6,"\xc3" :"a","s":"ok","x":1}',
        b'{"id":7,"s":"\xff","x":1',
        b'{"id":8,"s":"\xff\\',
        b'{"id":9,"s":"\xff","x":"\\q"}',
        b'{"id":10,"s":"a","x":1}\xff',
        b'{"id":11,"s":"\xed\xa0\x80\\"","x":1}',
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(texts))
    expected = [(1, None), (2, None), (3, None), (4, "\U0001f600"), (5, r"\ud800"), (6, "ok"), (11, None)]
    assert opened(tmp_path / "rows.jsonl", TYPES)[1] == sorted(repr((*row, 1.0)) for row in expected)


def fields(path, block: int, **how) -> list[tuple]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "TEXT_BYTES", block)
        batches = list(text_lines.Csv(**how).batches(str(path), list(TYPES), list(TYPES)))
    return [row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def test_an_open_quote_takes_the_next_line_along_unless_each_line_is_a_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b'id,s,x\n7,a,"3\n100,g1,5"\n101,"g\n2",6\n102,g0,7\n')
    # That of 100 is in a field of 7.
    assert others(path) == ["(101, 'g\\n2', 6.0)", "(102, 'g0', 7.0)"]
    assert others(path, multiline=False) == ["(100, 'g1', None)", "(102, 'g0', 7.0)"]


def test_an_open_quote_of_one_line_takes_no_other_along(tmp_path):
    """The others were not written well either: a quote stands in their texts, before a delimiter too."""
    inches = [(100, '6"', 1.0), (101, 'a"b', 2.0), (102, "g", 3.0), (104, '6"', 5.0)]
    text = b"".join(b"%d,%s,%r\n" % (u, s.encode(), x) for u, s, x in inches)
    for line in (b"", b'7,a"b,"c', b'7,"a"b,"c', b'7,a"b"c,"', b'7,3,"abc', b'"7,a', b'7,a,"3","'):
        (tmp_path / "rows.csv").write_bytes(b"id,s,x\n" + line + b"\n" + text)
        read = [row for row in fields(tmp_path / "rows.csv", 1 << 20) if (row[0] or "")[:1] == "1"]
        assert [row[0] for row in read] == ["100", "101", "102", "104"], line


PIECES = [bytes([b]) for b in b'",\n\ra7\0\xff\xc3'] + [b"\r\n", b"\xc3\xa9", b'""', b'",', b',"']
LINES = b'a,b,c|"a","b",c|"a,""",b,\r|"","",""|,,|"x""y",\xff,|7,"a|a"b,"c|6",5,'.split(b"|")
TEXT = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join) | st.lists(
    st.sampled_from(LINES), max_size=8
).map(b"\n".join)


def check_blocks(folder, text: bytes, block: int) -> None:
    """All lines at once are read as one by one; and where each line is a row, as each in a file of its own."""
    path = folder / "blocks.csv"
    path.write_bytes(b"id,s,x\n" + text + b"\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "FIRST_TEXT_BYTES", 4)
        at_once = fields(path, block)
        apart = fields(path, block, multiline=False)
        patch.setattr(text_lines, "split_fields", lambda *_: None)
        assert at_once == fields(path, block) == fields(path, 1 << 20)
    alone = []
    for line in text.split(b"\n"):
        path.write_bytes(b"id,s,x\n" + line + b"\n")
        alone += fields(path, 1 << 20, multiline=False)
    assert apart == alone


@pytest.mark.long
@tried(600)
@given(TEXT, st.sampled_from([4, 9, 1 << 20]))
def test_all_lines_at_once_are_read_as_one_by_one(tmp_path_factory, text, block):
    check_blocks(tmp_path_factory.getbasetemp(), text, block)
