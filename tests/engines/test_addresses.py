"""Files at an address: fetched whole from servers of this machine, and told of without keys."""

from __future__ import annotations

import gzip
import io
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import file_paths, resources
from sfumato.errors import EngineError

from .stores import S3, Google, Web, served

pytestmark = pytest.mark.usefixtures("keys_of_nobody")

TABLE = pa.table({"id": [i // 2 for i in range(60)], "x": [float(i % 11) for i in range(60)]})
ADDRESSES = {
    Web: "http://{}/{}",
    S3: "s3://bucket/{1}?endpoint_override={0}&scheme=http&region=eu-west-1",
    Google: "gs://anonymous@bucket/{1}?endpoint_override={0}&scheme=http",
}


@pytest.fixture
def keys_of_nobody(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "zoe")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hers-alone")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def parquet(table):
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def csv(table):
    written = io.BytesIO()
    pyarrow.csv.write_csv(table, written)
    return written.getvalue()


FILES = {
    f"visits/year={2000 + part}/part.parquet": parquet(TABLE.slice(20 * part, 20)) for part in range(3)
} | {
    "visits.parquet": parquet(TABLE),
    "visits.csv.gz": gzip.compress(csv(TABLE)),
    "visits.csv": csv(TABLE),
    "about.txt": b"nothing",
}


def rows_at(source, **options):
    """The exact number of rows: an epsilon of 2,000 is noise below a half, but once in 10^400."""
    table = sf.scan(source, privacy_unit="id", **options)
    told = table.bound(rows=2).agg(n=sf.count()).release(epsilon=4000).to_arrow()
    return told["n"].to_pylist(), list(table.schema)


@pytest.mark.noise_cannot_matter("noise of scale 2/4000 is rounded to nothing")
@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_file_of_every_server(kind):
    with served(kind, FILES) as (host, _):
        for name in ("visits.parquet", "visits.csv", "visits.csv.gz"):
            assert rows_at(ADDRESSES[kind].format(host, name)) == ([60], ["id", "x"])


@pytest.mark.noise_cannot_matter("noise of scale 2/4000 is rounded to nothing")
@pytest.mark.parametrize("scheme", ["HTTP", "Http"])
def test_a_scheme_in_capitals(scheme):
    with served(Web, FILES) as (host, server):
        assert rows_at(f"{scheme}://{host}/visits.parquet") == ([60], ["id", "x"])
        assert server.asked.count("GET /visits.parquet") == 1


@pytest.mark.noise_cannot_matter("noise of scale 2/4000 is rounded to nothing")
@pytest.mark.parametrize("kind", [S3, Google])
@pytest.mark.parametrize("pattern", ["visits/*/*.parquet", "visits/**/part.parquet"])
def test_a_pattern_of_files(kind, pattern):
    with served(kind, FILES) as (host, _):
        assert rows_at(ADDRESSES[kind].format(host, pattern)) == ([60], ["id", "x", "year"])
        both = [ADDRESSES[kind].format(host, f"visits/year={year}/part.parquet") for year in (2000, 2002)]
        assert rows_at(both) == ([40], ["id", "x", "year"])


def test_a_file_that_did_not_change_is_fetched_once():
    files = dict(FILES)
    with served(Web, files) as (host, server):
        address = ADDRESSES[Web].format(host, "visits.csv")
        for _ in range(3):
            sf.scan(address, privacy_unit="id")
        assert server.asked.count("GET /visits.csv") == 1
        files["visits.csv"] = csv(TABLE.append_column("y", TABLE["x"]))
        assert list(sf.scan(address, privacy_unit="id").schema) == ["id", "x", "y"]


def test_copies_are_for_this_user_alone():
    with served(Web, FILES) as (host, _):
        (copy,) = file_paths.fetched(
            ADDRESSES[Web].format(host, "visits.csv"), ".csv", file_paths.Resources()
        )
    folder = Path(copy).parent
    assert "/sfumato-spill-" in copy and folder.stat().st_mode & 0o777 == 0o700


SECRETS = {"hers-alone", "3f9", "zoe"}


@pytest.mark.parametrize(
    ("kind", "address", "says"),
    [
        (Web, "http://{}/visits.parquet?signature=3f9", "cannot be fetched: its server refuses access"),
        (
            S3,
            "s3://bucket/visits.parquet?endpoint_override={}&scheme=http",
            "refuses access",
        ),
    ],
)
def test_a_server_that_refuses(kind, address, says):
    with served(kind, FILES) as (host, server):
        server.refused = True
        check_says(address.format(host), says)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://{}/nothing.parquet?signature=3f9", "there is no such file, or no server that answers"),
        ("http://zoe:hers-alone@{}/visits.parquet", "has a password in it; leave it out"),
        ("http://{}/about.txt?signature=3f9", "ends in '.txt', which is none of .parquet"),
        ("http://{}/", "ends in ''"),
        ("s3://bucket/visits.csv?endpoint={}&token=3f9", "an option in its address is none that is known"),
        ("gopher://{}/visits.parquet?signature=3f9", "no source begins with 'gopher://'"),
        ("az://bucket/visits.parquet?signature=3f9", "what speaks to such servers is not installed"),
        (
            "s3://bucket/n*.parquet?endpoint_override={}&scheme=http",
            "there is no file 's3://bucket/n*.parquet'",
        ),
    ],
)
def test_addresses_of_no_file(address, says):
    with served(S3 if address.startswith("s3") else Web, FILES) as (host, _):
        check_says(address.format(host), says)


def check_says(address, says):
    with pytest.raises(EngineError, match=re.escape(says)) as refused:
        sf.scan(address, privacy_unit="id")
    assert not any(secret in str(refused.value) for secret in SECRETS)
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_file_that_breaks_off_is_not_taken_for_whole():
    with served(Web, FILES) as (host, server):
        server.cut, before = True, set(Path(resources.spill_folder()).rglob("*"))
        check_says(f"http://{host}/visits.csv?signature=3f9", "cannot be fetched")
    assert set(Path(resources.spill_folder()).rglob("*")) == before


def test_a_folder_whose_name_is_none_here():
    with served(S3, {"a=b:c/visits.csv": b"id\n1\n"}) as (host, _):
        check_says(ADDRESSES[S3].format(host, "a=b:c/visits.csv"), "has a name that is none on this machine")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    check_says("https://example.org/visits.csv", "pip install 'sfumato[remote]'")
