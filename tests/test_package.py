"""What is published: the wheel has all that it needs and nothing else, and its papers agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from importlib.metadata import distribution
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
    assert first and re.fullmatch(
        rf"{re.escape(PROJECT['version'])} \((unreleased|\d{{4}}-\d\d-\d\d)\)", first[1]
    )


def test_the_license_is_apaches_everywhere():
    assert PROJECT["license"] == "Apache-2.0"
    assert "\nlicense: Apache-2.0\n" in (ROOT / "CITATION.cff").read_text()
    assert (ROOT / "LICENSE").read_text().split()[:4] == ["Apache", "License", "Version", "2.0,"]


def test_files_that_the_papers_name_exist():
    for paper in ("SECURITY.md", "RELEASING.md"):
        named = re.findall(
            r"`((?:docs|\.ci)[^ `]*|[A-Z]+\.(?:md|cff))|\]\(([^)]+)\)", (ROOT / paper).read_text()
        )
        names = [a or b for a, b in named]
        assert names and all((ROOT / name).exists() for name in names), names


def test_what_uv_is_told_of_packages_is_what_they_say():
    for told in PYPROJECT["tool"]["uv"]["dependency-metadata"]:
        installed = distribution(told["name"])
        if installed.version != told["version"]:
            continue  # uv asks the package itself
        said = (Requirement(line) for line in installed.requires or ())
        always = {(r.name, r.specifier) for r in said if "extra" not in str(r.marker or "")}
        assert {(r.name, r.specifier) for r in map(Requirement, told["requires-dist"])} == always


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


@pytest.mark.long
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    own = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert own == {name.removeprefix("src/") for name in files.stdout.split()}
    assert {"sfumato/py.typed", "sfumato/service/page/index.html"} <= own


@pytest.mark.long
def test_the_wheel_says_what_it_is(wheel):
    (name,) = [n for n in wheel.namelist() if n.endswith("METADATA")]
    said = HeaderParser().parsestr(wheel.read(name).decode())
    assert (said["Name"], said["Version"]) == ("sfumato", PROJECT["version"])
    assert said["License-Expression"] == "Apache-2.0"
    assert any(n.endswith("licenses/LICENSE") for n in wheel.namelist())
    assert said["Requires-Python"] == "<3.14,>=3.11"
    needed = [n for n in said.get_all("Requires-Dist") if "extra ==" not in n]
    assert len(needed) == len(PROJECT["dependencies"])
    assert all("<" in n for n in needed)  # nothing that was not tested
