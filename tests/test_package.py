"""What is published: the wheel has all that it needs and nothing else, and its papers agree."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import sfumato as sf

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def test_every_paper_names_the_version():
    assert PROJECT["version"] == sf.__version__
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
    first = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert first
    assert re.fullmatch(rf"{re.escape(PROJECT['version'])} \((unreleased|\d{{4}}-\d\d-\d\d)\)", first[1])


def test_files_that_the_papers_name_exist():
    for paper in ("SECURITY.md", "RELEASING.md"):
        named = re.findall(
            r"`((?:docs|\.ci)[^ `]*|[A-Z]+\.(?:md|cff))|\]\(([^)]+)\)", (ROOT / paper).read_text()
        )
        names = [a or b for a, b in named]
        assert names and all((ROOT / name).exists() for name in names), names


def test_bounds_leave_room_for_other_packages():
    """A lower bound, which .ci/run installs, and at most the next major version: of 0.x the next minor one."""
    extras = [needed for name, needed in PROJECT["optional-dependencies"].items() if name != "dev"]
    for needed in map(Requirement, [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]):
        if needed.name == "sfumato":
            continue
        bounds = {one.operator: one.version for one in needed.specifier}
        assert bounds.keys() - {"<"} == {">="}, needed
        assert re.fullmatch(r"\d+|0\.\d+", bounds.get("<", "1")), needed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


@pytest.mark.release
def test_what_the_readme_installs_from_pypi_works(tmp_path, wheel):
    """From a local index; the dependencies are those of PyPI."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("uv is not installed beside this Python")
    (line,) = re.findall(r"`uv (pip install 'sfumato[^`]*)`", (ROOT / "README.md").read_text())
    environment, python = tmp_path / "env", tmp_path / "env" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, environment], check=True)
    options = ["-q", "--system-certs", "--python", python, "--find-links", Path(wheel.filename).parent]
    subprocess.run([uv, *shlex.split(line), *options], check=True, cwd=tmp_path)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: object) -> str:
        return subprocess.run(
            command, check=True, cwd=tmp_path, env=alone, capture_output=True, text=True
        ).stdout

    assert run(python, "-c", "import sfumato; print(sfumato.__file__)").startswith(str(environment))
    run(python, ROOT / "examples" / "rwm5yr.py")
    shown = run(environment / "bin" / "sfumato", "sql", "--file", ROOT / "examples" / "visits_by_year.sql")
    assert "1984" in shown


@pytest.mark.long
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    own = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert own == {name.removeprefix("src/") for name in files.stdout.split()}
    assert {"sfumato/py.typed", "sfumato/service/page/index.html"} <= own
