"""The page on trust: its numbers are counted, and what runs between rows and noisy numbers is on it."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from tests.engines.conftest import StagedEngine

pytestmark = pytest.mark.noise_cannot_matter("which functions run is looked at, whatever the noise is")

ROOT = Path(__file__).parents[1]
PACKAGE = str(Path(sf.__file__).parent) + "/"
# They may fall, and do not rise unseen: in all, of one release on one machine, and with the plainest noise.
MAX, MAX_ON_ONE_MACHINE, MAX_OF_PLAIN = 16_500, 10_000, 7_450


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trust", ROOT / "tools" / "trust.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["trust"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


TRUST = tool()
BASE = TRUST.base()


def numbers(page: str) -> tuple[str, list[int]]:
    """Return a page without its numbers of lines, and these."""
    found = re.compile(r"(?<=\| )(?:\*\*)?([\d,]+)(?:\*\*)?(?= \|)|(?<=rests on )([\d,]+)")
    return found.sub("#", page), [int((a or b).replace(",", "")) for a, b in found.findall(page)]


@pytest.mark.long
def test_the_page_has_the_numbers_of_the_script():
    """A change of a few lines need not write the page anew; more does, and so does another file. It does not grow."""
    (text, told), (now, counted) = numbers(TRUST.PAGE.read_text()), numbers(TRUST.page())
    assert text == now, "run `python tools/trust.py`"
    assert len(told) > 20
    for one, other in zip(told, counted, strict=True):
        assert abs(one - other) <= 50 + other // 50, "run `python tools/trust.py`"
    assert TRUST.total() <= MAX and TRUST.largest() <= MAX_ON_ONE_MACHINE
    assert TRUST.total("all") <= MAX_OF_PLAIN


def test_every_module_is_in_the_base_or_apart_for_a_reason():
    assert [m for m in TRUST.modules() if m not in BASE and TRUST.apart(m) is None] == []
    for one in TRUST.APART:
        assert any(TRUST.apart(m) is one for m in TRUST.modules() if m not in BASE), one.why


# What runs, looked at.

# Between rows and noisy numbers is what runs while one of these does.
_WHOLE = {
    "release/release.py": {"_drawn"},
    "release/top_release.py": {"_draw"},
    "engines/duckdb/stages.py": {"partials", "reached", "totals", "collected", "joined_totals", "merged"},
    "engines/worker_noise.py": {"noisy", "gathered", "together"},
    "engines/beam/beam_release.py": {"process", "finish_bundle", "add_input", "extract_output", "_drawn"},
    "engines/beam/beam_elements.py": {"process", "finish_bundle"},
}


def definition(code: CodeType) -> str:
    """The definition of a module that code stands in, whatever function, lambda or comprehension it is there."""
    return re.split(r"\.<", code.co_qualname)[0]


class Watched:
    """Modules that ran between rows and noisy numbers, or that the base called; and definitions that did."""

    def __init__(self) -> None:
        self.ran: dict[str, str] = {}
        self.definitions: dict[tuple[str, str], str] = {}
        self._within = threading.local()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        module, depth = code.co_filename.removeprefix(PACKAGE), getattr(self._within, "depth", 0)
        if code.co_name in _WHOLE.get(module, ()):
            self._within.depth = depth = depth + (1 if event == "call" else -1)
        caller = frame.f_back
        importing = (
            caller and caller.f_code.co_name == "<module>" and caller.f_code.co_filename == code.co_filename
        )
        if event != "call" or importing:  # the body of a class runs when its module is imported
            return
        while caller and caller.f_code.co_filename.endswith(_HANDED_ON) and caller.f_code.co_name == "call":
            caller = caller.f_back  # which calls what it stands around
        called_by, of_base = "", False
        if caller and caller.f_code.co_filename.startswith(PACKAGE):
            calling = caller.f_code.co_filename.removeprefix(PACKAGE)
            called_by = f"{calling}::{definition(caller.f_code)}"
            of_base = BASE.get(calling) == () and TRUST.counts(calling, definition(caller.f_code))
        if depth or of_base:
            self.ran.setdefault(module, code.co_qualname)
            self.definitions.setdefault((module, definition(code)), "" if depth else called_by)

    @property
    def unexplained(self) -> dict[str, str]:
        """Those that the page has neither in the base nor with a reason why they may run there."""
        return {
            module: name
            for module, name in sorted(self.ran.items())
            if module not in BASE and not ((one := TRUST.apart(module)) and one.near)
        }

    @property
    def excluded(self) -> dict[tuple[str, str], str]:
        """Definitions that ran there though they do not count, and who called them."""
        return {
            (module, name): caller
            for (module, name), caller in self.definitions.items()
            if BASE.get(module) == () and not TRUST.counts(module, name)
            if not any(
                name in names for part in TRUST.BASE for names in [TRUST.of_part(part).get(module, ())]
            )
        }


# What stands around a function and calls it.
_HANDED_ON = "exact/library_settings.py"


ROWS = pa.table(
    {"id": [i // 2 for i in range(60)], "g": ["a", "b", "c"] * 20, "x": [float(i % 7) for i in range(60)]}
)


def question(table: sf.Table) -> sf.Question:
    asked = {"n": sf.count(), "people": sf.count_units(), "m": sf.mean("x", lower=0, upper=7)}
    return table.filter("x < 6.5").with_columns(y="x * 2").group_by("g").bound(groups=2, rows=2).agg(**asked)


def of_files(folder: Path) -> None:
    pq.write_table(ROWS, folder / "rows.parquet")
    pyarrow.csv.write_csv(ROWS, folder / "rows.csv")
    for name, types in (
        ("rows.parquet", None),
        ("rows.csv", {"id": "BIGINT", "g": "VARCHAR", "x": "DOUBLE"}),
    ):
        table = sf.scan(str(folder / name), privacy_unit="id", types=types)
        question(table).release(epsilon=1, delta=1e-3, diagnostics=0.1).to_arrow()


def in_memory(folder: Path) -> None:
    """Release tables in memory, the largest groups, and what finds its bounds; and exact statistics in stages."""
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-3, privacy_unit_column = id, "
        "max_groups_contributed = 1, max_rows_per_group = 1) g, COUNT(*) AS n FROM (SELECT a.id, a.g, "
        "row_number() OVER (PARTITION BY a.id ORDER BY a.x) AS r FROM a JOIN b USING (id)) GROUP BY g ORDER BY n"
    )
    tables = {name: ROWS for name in "ab"}
    sf.sql(text, tables=tables).to_arrow()
    table = sf.scan(ROWS, privacy_unit="id")
    table.top("g", k=2).release(epsilon=1, delta=1e-3).to_arrow()
    table.bound(rows=1).agg(s=sf.sum("x", lower="auto", upper="auto")).release(epsilon=100).to_arrow()
    StagedEngine(ROWS).release(question(table).plan(epsilon=1, delta=1e-3)).to_arrow()


def on_beam(folder: Path) -> None:
    beam = pytest.importorskip("apache_beam")
    from apache_beam.options.pipeline_options import PipelineOptions

    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        rows = pipeline | beam.Create(ROWS.to_pylist())
        rows | question(sf.scan(ROWS.schema, privacy_unit="id")).release(epsilon=1, delta=1e-3)


LONG = [pytest.param(one, marks=pytest.mark.long) for one in (of_files, on_beam)]


@pytest.mark.long
@pytest.mark.parametrize("release", [in_memory, *LONG])
def test_what_runs_between_rows_and_noisy_numbers_is_on_the_page(release, tmp_path):
    watched = Watched()
    with watched():
        release(tmp_path)
    assert len(watched.ran) > 20 and not watched.unexplained
    assert not watched.excluded


def ran_of(use: str, watched: Watched) -> set[tuple[str, str]]:
    """What counts, ran, and is there for releases of one use alone."""
    parts = [TRUST.of_part(part) for part in TRUST.BASE if part.used == use]
    return {
        (module, name)
        for module, name in watched.definitions
        for part in parts
        if module in part and (name in part[module] if part[module] else TRUST.counts(module, name))
    }


@pytest.mark.parametrize("noise", ["k_norm", "gaussian"])
def test_noise_of_totals_and_k_norm_noise_are_in_no_release_together(noise):
    """So a release rests on one of them."""
    keys = pa.table({"g": ["a", "b", "c"]})
    table = sf.scan(ROWS, privacy_unit="id").group_by("g", keys=keys).bound(groups=2, rows=2)
    asked = (table if noise == "k_norm" else table.totals()).agg(n=sf.count())
    watched = Watched()
    with watched():
        asked.release(epsilon=1, delta=1e-3, noise=noise).to_arrow()
    used, other = (TRUST.K_NORM, TRUST.TOTALS) if noise == "k_norm" else (TRUST.TOTALS, TRUST.K_NORM)
    assert ran_of(used, watched) and not ran_of(other, watched)
