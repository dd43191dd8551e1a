"""The folder tree tells the flow, and the public face is what it says."""

import ast
import re
import subprocess
import sys
import tempfile
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sfumato"
FACES = sorted(PACKAGE.rglob("__init__.py"))
# What each room may import, besides itself and `dataclass`.
BELOW = {
    "dataclass": "",
    "errors": "",
    "certificate": "",
    "sql_text": "",
    "names": "errors exact",
    "exact": "errors",
    "ownership": "errors",
    "display": "errors files",
    "files": "errors ownership",
    "noise": "errors names exact ownership display",
    "framework": "errors names exact ownership display",
    "budget": "errors certificate names exact ownership display framework",
    "transformations": "errors sql_text names exact display framework",
    "snapping": "errors names exact noise framework transformations",
    "measurements": "errors names exact ownership display noise framework budget transformations",
    "query": "errors names exact display noise framework budget transformations measurements",
    "plan": "errors certificate exact display noise framework budget transformations measurements query",
    "release": "errors certificate names exact ownership display files noise budget measurements query plan",
    "guidance": "errors exact ownership display noise framework budget transformations measurements query plan release",
    "api": "errors names exact display noise budget transformations measurements query plan release guidance",
    "advice": "errors names exact display noise budget query plan release guidance api",
    "catalogs": "errors names exact display query api",
    "dialect": "errors names display measurements query plan api catalogs",
    "engines": "errors sql_text names exact ownership display files noise framework budget transformations measurements query plan release guidance api catalogs dialect",
    "beam": "names engines",
    "spark": "errors",
    "audit": "errors names exact display files noise framework budget",
    "testing": "errors names exact noise framework budget transformations query plan release api engines audit",
    "service": "errors names exact files budget query release api catalogs dialect engines",
    "client": "errors names exact display query release api catalogs engines service",
    "cli": "errors certificate names exact display files budget query release guidance api advice dialect engines audit service",
}


@cache
def names(path: Path) -> frozenset[str]:
    """Dotted names that a file imports, inside functions too, but not for type checking alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            within = getattr(node, part, ())
            waiting += within if isinstance(within, list) else ()
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write the whole name of what line {node.lineno} imports"
            found |= {f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return frozenset(found)


def rooms(path: Path) -> set[str]:
    """Rooms of the package that a file imports."""
    return {name.split(".")[1] for name in names(path) if name.startswith("sfumato.")}


def module(path: Path) -> str:
    """The module's name; a package's is that of its folder."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def packages(name: str) -> set[str]:
    """The packages that hold a module."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


@cache
def homes() -> dict[str, str]:
    """The module of each name that a package loads when it is first used."""
    tables = {module(p): re.search(r"^_HOMES = (\{.*?^\})", p.read_text(), re.M | re.S) for p in FACES}
    return {
        f"{package}.{name}": f"sfumato.{home}"
        for package, table in tables.items()
        if table and package != "sfumato"  # which lists homes by name
        for home, held in ast.literal_eval(table[1]).items()
        for name in held.split()
    }


def imported(path: Path, modules: set[str]) -> set[str]:
    """Modules that a file imports, and the packages that are run for these before."""
    own, found = module(path), set()
    for name in names(path):
        home = homes().get(name) or (name if name in modules else name.rpartition(".")[0])
        if home in modules:
            found |= {home} | packages(home) - packages(own)
    return found - {own}


def test_arrows_run_one_way() -> None:
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert there - {"__init__"} == set(BELOW)
    for room, below in BELOW.items():
        for path in (PACKAGE / f"{room}.py", *(PACKAGE / room).rglob("*.py")):
            beyond = (rooms(path) if path.exists() else set()) - {
                *below.split(),
                room,
                "dataclass",
                "__version__",
            }
            assert not beyond, f"{path.relative_to(ROOT)} imports {beyond}"
    TopologicalSorter({room: below.split() for room, below in BELOW.items()}).prepare()


def test_no_circle_of_imports() -> None:
    """Not even one that an import inside a function makes sanitized: a thing lies where both can reach it."""
    files = {module(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: imported(path, set(files)) for name, path in files.items()}
    assert graph["sfumato.cli.main"]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" is imported by ".join(error.args[1]))


def test_the_first_release_loads_what_it_needs_alone() -> None:
    """What takes long to load, and what a plain release has no use for."""
    code = """
import sys
import duckdb, sfumato as sf
file, opened, connect = sys.argv[1], [], duckdb.connect
duckdb.connect = lambda *given, **options: opened.append(given) or connect(*given, **options)
duckdb.sql("SELECT i % 50 AS unit, i % 3 AS k, i % 7 AS x FROM range(500) t(i)").write_parquet(file)
asked = {"n": sf.count(), "s": sf.sum("x", lower=0, upper=6), "m": sf.mean("x", lower=0, upper=6)}
table = sf.scan(file, privacy_unit="unit").group_by("k").bound(groups=2, rows=1)
table.agg(**asked).release(epsilon=1, delta=1e-6).to_arrow()
print(len(opened), *sys.modules)
"""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, f"{folder}/rows.parquet"]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    databases, *modules = done.stdout.split()
    loaded = set(modules)
    assert databases == "1" and "sfumato.release.release" in loaded
    ours = "audit cli client service testing snapping dialect.subquery_select budget.ledger.ledger"
    ours += " measurements.stratified_survey guidance.preview guidance.analysis transformations.record_sums"
    slow = {"scipy", "pandas", "mpmath", "dp_accounting", "typer", "rich", "matplotlib"}
    slow |= {"pyarrow.compute", "numpy.polynomial", "sqlite3", "difflib"}
    assert not (slow | {f"sfumato.{name}" for name in ours.split()}) & loaded


def test_files_named_in_the_docs_exist() -> None:
    pages = [
        *(
            ROOT / "docs" / name
            for name in ("architecture.md", "glossary.md", "sources.md", "threat-model.md")
        ),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    ]
    named = {
        m
        for page in pages
        for m in re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`", page.read_text())
    }
    assert named
    missing = {name for name in named if not (ROOT / name).exists()}
    assert not missing


def test_tests_named_beside_the_sources_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "sources.md").read_text()))
    written = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert named and named <= set(re.findall(r"^def (test_\w+)", written, re.M))
