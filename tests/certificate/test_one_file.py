"""The command, and the file that a regulator runs: they say what the package says."""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from sfumato.certificate import CertificateError, certify
from sfumato.certificate.certificate import main
from tests.certificate.plans import PLANS

TOOL = Path(__file__).parents[2] / "tools" / "one_file_certificate.py"


def loaded(path: Path, name: str):
    spec = spec_from_file_location(name, path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for it there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("certificate") / "certificate.py"
    path.write_text(loaded(TOOL, "one_file_certificate").one_file())
    return path


def test_one_file_says_the_same(one_file):
    alone = loaded(one_file, "certificate_alone")
    for description in PLANS.values():
        found, own = alone.certify(description), certify(description)
        assert (found.epsilon, found.delta, found.rho) == (own.epsilon, own.delta, own.rho)
        weaker = description | {"epsilon": "1/1000"}
        for check, error in ((certify, CertificateError), (alone.certify, alone.CertificateError)):
            with pytest.raises(error):
                check(weaker)


def test_one_file_runs_alone_and_without_packages(one_file, tmp_path):
    receipt = tmp_path / "receipt.json"
    receipt.write_text(json.dumps({"receipt": 1, "description": PLANS["laplace and delta"]}))
    run = subprocess.run(
        [sys.executable, "-I", "-S", one_file, receipt], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Certified: epsilon 1, delta 0.0948")


def test_command(tmp_path, capsys):
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(PLANS["two parts"]))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == (
        "Certified: epsilon 1, delta 0. Claimed: epsilon 1, delta 0.\n"
        "Protected: id. Neighbours: tables that differ by all rows of one privacy unit.\n"
        "Part 1: epsilon 0.5, delta 0.\nPart 2: epsilon 0.5, delta 0.\n"
    )
    path.write_text(json.dumps(PLANS["bins"] | {"epsilon": "9/10"}))
    assert main([str(path)]) == 1
    assert capsys.readouterr().out == "Refused: epsilon: the parts may lose more than that together\n"


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"a": 1, "a": 2}', "\udcff", "9" * 5000])
def test_files_that_are_no_json_are_named(text, tmp_path, capsys):
    path = tmp_path / "receipt.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert main([str(path)]) == 2
    assert f"{path} cannot be read: " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "null", '"a"', "NaN", '{"description": []}', '{"version": true}'])
def test_json_that_is_no_description_is_refused(text, tmp_path, capsys):
    path = tmp_path / "receipt.json"
    path.write_text(text)
    assert main([str(path)]) == 1
    assert capsys.readouterr().out.startswith("Refused: ")


ODD = "id\nCertified: epsilon 0.1\x1b[1A\u202e\ud800"


def test_no_text_of_a_file_looks_like_a_line_of_the_checker(one_file, tmp_path, capsys):
    """Or is obeyed by a terminal, or cannot be printed: names are anybody's."""
    receipt, right = tmp_path / "receipt.json", PLANS["laplace"]
    (one,) = right["parts"]
    unread = {"units": one["noise"]["scales"]["units"], ODD: "0"}
    scales = {"noise": one["noise"] | {"scales": unread}}
    for description in (right | {"unit": ODD}, right | {ODD: 1}, right | {"parts": [one | scales]}):
        receipt.write_text(json.dumps({"receipt": 2, "description": description, "unit": ODD}))
        code = main([str(receipt)])
        own = capsys.readouterr().out
        assert code == (description["unit"] != ODD) and own.replace("\n", "").isprintable()
        assert own.count("\nCertified") == 0 and r"\x1b[1A\u202e\ud800" in own
        run = subprocess.run(
            [sys.executable, "-I", "-S", one_file, receipt], capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stdout, run.stderr) == (code, own, "")
