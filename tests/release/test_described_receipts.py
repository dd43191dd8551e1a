"""Receipts of every kind of release say what was drawn, and three tools recompute the same from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from hashlib import sha256
from operator import getitem
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.certificate.certificate import main
from sfumato.cli.main import app
from sfumato.errors import EngineError
from sfumato.exact.parameters import canonical_bytes
from sfumato.release.receipt import Receipt
from tests.certificate.test_one_file import TOOL, loaded

pytestmark = pytest.mark.noise_cannot_matter("descriptions are compared, whatever the numbers are")

ROWS = pa.table(
    {"id": [i // 2 for i in range(240)], "g": ["a", "b", "c"] * 80, "x": [float(i % 7) for i in range(240)]}
)
PRIVATE = {"epsilon": 2, "delta": "1e-5"}


def people() -> sf.Table:
    return sf.scan(ROWS, privacy_unit="id")


def grouped(keys: list[str] | None = None) -> sf.Table:
    return people().group_by("g", keys=keys).bound(groups=2, rows=2)


def several() -> Any:
    inside = (
        "(SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}, delta = 1e-6, privacy_unit_column = id, "
        "max_groups_contributed = 1, max_rows_per_group = 1) g, COUNT(*) AS n FROM people GROUP BY g)"
    )
    text = f"SELECT a.g, a.n - b.n AS d FROM {inside.format(1)} AS a JOIN {inside.format(2)} AS b USING (g)"
    return sf.sql(text, tables={"people": ROWS})


# By kind: makes the release.
KINDS: dict[str, Callable[[], Any]] = {
    "laplace": lambda: people().bound(rows=2).agg(n=sf.count()).release(epsilon="1/2"),
    "groups": lambda: grouped().agg(n=sf.count(), m=sf.mean("x", lower=0, upper=7)).release(**PRIVATE),
    "gaussian": lambda: grouped(["a", "b"]).agg(n=sf.count()).release(**PRIVATE, noise="gaussian"),
    "k_norm": lambda: grouped(["a", "b"]).agg(v=sf.variance("x", lower=0, upper=7)).release(
        epsilon=1, noise="k_norm"
    ),
    "quantiles": lambda: people().bound(rows=1).agg(q=sf.median("x", lower=0, upper=7)).release(epsilon=1),
    "largest": lambda: people().top("g", k=2, keys=["a", "b", "c"]).release(epsilon=1),
    "several": several,
    "diagnostics": lambda: grouped(["a", "b"]).agg(n=sf.count()).release(epsilon=1, diagnostics="1/10"),
    "automatic": lambda: people().bound(rows=1).agg(s=sf.sum("x", lower="auto", upper="auto")).release(epsilon=3),
}  # fmt: skip


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], int]:
    """The command of the single file, loaded: tests/certificate/test_one_file.py runs it as a process."""
    path = tmp_path_factory.mktemp("certificate") / "certificate.py"
    path.write_text(loaded(TOOL, "one_file_certificate").one_file())
    return loaded(path, "certificate_alone").main


def verify(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", *map(str, arguments)], env={"COLUMNS": "80", "TERM": "dumb"})
    return done.exit_code, done.output


def answers(
    path: Path, capsys: pytest.CaptureFixture[str], one_file: Callable[[list[str]], int]
) -> tuple[int, str]:
    """What the command, the package and the single file say of a receipt, which is the same."""
    found = [verify(path)]
    for one in (main, one_file):
        capsys.readouterr()
        found.append((one([str(path)]), capsys.readouterr().out))
    assert len(set(found)) == 1, found
    return found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_receipts_of_every_kind_are_verified(kind, tmp_path, capsys, one_file):
    release = KINDS[kind]()
    receipt, path = release.receipt(), tmp_path / "receipt.json"
    receipt.write(path)
    epsilon, delta = receipt.spent
    code, said = answers(path, capsys, one_file)
    assert code == 0 and said.startswith("Certified: epsilon ") and "Protected: id." in said
    assert receipt.certificate().epsilon <= epsilon and receipt.certificate().delta <= delta
    assert receipt.description["epsilon"] == str(epsilon) and receipt.to_dict()["unit"] == "id"
    assert Receipt.read(path) == receipt and Receipt.read(path).certified == receipt.certified
    pq.write_table(release.to_arrow(), tmp_path / "answer.parquet")
    code, said = verify(path, tmp_path / "answer.parquet")
    assert code == 0 and "agrees with the receipt" in said and "Certified: epsilon " in said


def test_all_that_is_drawn_is_described():
    parts = {kind: KINDS[kind]().receipt().description["parts"] for kind in ("laplace", "several", "largest")}
    assert {kind: len(found) for kind, found in parts.items()} == {"laplace": 1, "several": 2, "largest": 1}
    for kind in ("diagnostics", "automatic"):
        release = KINDS[kind]()
        parts = release.receipt().description["parts"]
        assert len(parts) > 1 and release.plan.description in parts, kind


@pytest.mark.long
def test_a_release_on_beam_has_a_receipt_without_an_answer(tmp_path, capsys, one_file):
    pytest.importorskip("apache_beam")
    table = sf.scan(ROWS.schema, privacy_unit="id")
    made = [
        table.group_by("g").bound(groups=1, rows=1).agg(n=sf.count()).release(**PRIVATE),
        table.top("g", k=2, keys=["a", "b"]).release(epsilon=1),
    ]
    for one in made:
        receipt, path = one.receipt(), tmp_path / "receipt.json"
        receipt.write(path)
        code, said = answers(path, capsys, one_file)
        assert code == 0 and "Protected: id." in said and Receipt.read(path) == receipt
        assert "an answer elsewhere" in repr(receipt)
        pq.write_table(ROWS, tmp_path / "rows.parquet")
        code, said = verify(path, tmp_path / "rows.parquet")
        assert code == 2 and "has no digest of a table" in " ".join(said.split())


# What was changed is said.


def halved(receipt: dict[str, Any]) -> None:
    scales = receipt["description"]["parts"][0]["noise"]["scales"]
    scales |= {name: str(Fraction(scale) / 2) for name, scale in scales.items()}


PART = ("description", "parts", 0)
LESS = {("spent", "epsilon"): "1/10"}
# By what is changed: the entries and their new values, and what is said.
TAMPERED: dict[str, tuple[dict[tuple[Any, ...], Any], str]] = {
    "noise": ({(*PART, "noise", "scales"): {}}, "parts[0].noise"),
    "claim": (LESS | {("description", "epsilon"): "1/10"}, "epsilon: the parts may lose more than that together"),
    "spent": (LESS, "epsilon: the receipt says '1/10', and the description says '1/2'"),
    "certified": (
        {("certified", "epsilon"): "0.1"}, "certified.epsilon: the receipt says '0.1', and 0.5 can be certified",
    ),
    "unit": (
        {("description", "unit"): "household"}, "unit: the receipt says 'id', and the description says 'household'",
    ),
    "rows": ({("dummy",): True}, "dummy: the rows were made up"),
    "limit": ({(*PART, "statistics", 0, "rows"): 3}, "parts[0].delta: at the claimed epsilon"),
}  # fmt: skip


def tampered(receipt: dict[str, Any], name: str) -> str:
    """Change a receipt, and return what is said of it."""
    if name == "halved":
        halved(receipt)
        return "parts[0].delta: at the claimed epsilon at most 0.2"
    for (*path, last), new in TAMPERED[name][0].items():
        reduce(getitem, path, receipt)[last] = new
    return TAMPERED[name][1]


@pytest.fixture(scope="module")
def plain_receipt() -> str:
    return json.dumps(KINDS["laplace"]().receipt().to_dict())


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("name", [*TAMPERED, "halved"])
def test_what_was_changed_is_said(name, sealed, plain_receipt, tmp_path, capsys, one_file):
    """Also where the digest was made to fit again."""
    receipt, path = json.loads(plain_receipt), tmp_path / "receipt.json"
    told = tampered(receipt, name)
    if sealed:
        signed = {name: one for name, one in receipt.items() if name not in ("ledger", "sha256")}
        receipt["sha256"] = sha256(canonical_bytes(signed)).hexdigest()
    path.write_text(json.dumps(receipt))
    code, said = answers(path, capsys, one_file)
    assert code == 1 and f"Refused: {told}" in " ".join(said.split()), said
    assert ("Refused: sha256: something" in said) != sealed
    if sealed:
        with pytest.raises(EngineError, match="is not certified: |was changed: "):
            Receipt.read(path).certificate()


def test_a_changed_receipt_verifies_no_table(plain_receipt, tmp_path):
    receipt, path = json.loads(plain_receipt), tmp_path / "receipt.json"
    halved(receipt)
    path.write_text(json.dumps(receipt))
    pq.write_table(pa.table({"n": [1]}), tmp_path / "answer.parquet")
    assert verify(path, tmp_path / "answer.parquet")[0] == 1
    sealed = KINDS["laplace"]()
    made = sealed.receipt()
    description = json.loads(json.dumps(made.description))
    halved({"description": description})
    assert made.verify(sealed.to_arrow()) and not replace(made, description=description).verify(
        sealed.to_arrow()
    )
