"""Seeded faults in the checker: with each of them a test fails.

`python tests/certificate/faults.py [module ...]` runs the tests with one fault after another, and names those that
no test finds.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "src" / "sfumato"
TESTS = ["test_certify.py", "test_fields.py", "test_contributions.py", "test_noise.py", "test_composition.py"]
# A module, its text, and what stands there instead.
FAULTS = [
    ("contributions", 'abs(end - bounds["centre"])', "abs(end)"),
    ("contributions", 'return int(max(abs(', 'return int(min(abs('),
    ("contributions", "[Fraction(0)] if bounds", "[] if bounds"),
    ("contributions", "(1 << bits >> 1) >> bits", "0 >> bits"),
    ("contributions", 'max(abs(squares["centre"]), abs(top))', "abs(top)"),
    ("contributions", 'one * statistic["weight"]) for own', "one) for own"),
    ("contributions", 'most * -(-half_range(values) >> values["bits"])', 'most * (half_range(values) >> values["bits"])'),
    ("contributions", "max(abs(centre), abs(top))) for own", "abs(top)) for own"),
    ("contributions", "halves[i] * halves[j] - centre", "halves[i] - centre"),
    ("contributions", "one *= max(math.ceil(parts), whole - math.floor(parts))", "one *= math.ceil(parts)"),
    ("contributions", 'one *= statistic["values"]', "pass"),
    ("contributions", "pairs = ((max(ratios), 1),)", "pairs = ((min(ratios), 1),)"),
    ("contributions", '(ratios[0], statistic["levels"])', "(ratios[0], 1)"),
    ("contributions", '(ratios[0], statistic["length"])', "(ratios[0], 1)"),
    ("contributions", "l1 *= root_above(Fraction(statistic[\"length\"]))", "pass"),
    ("contributions", "Fraction(1, 2) if squares", "Fraction(0) if squares"),
    ("contributions", "for x in (0, half)]", "for x in (half,)]"),
    ("contributions", "if centre >= 1:", "if centre >= 10**9:"),
    ("contributions", "[max(null, *l1), max(null**2, *l2)]", "[max(l1), max(l2)]"),
    ("contributions", "product(*((0, half_range(column) ** 2)", "product(*((half_range(column) ** 2,)"),
    ("contributions", "(shift.rows, groups) if self.total_rows is None", "(1, groups) if self.total_rows is None"),
    ("contributions", "groups * (s.rows or 1) ** 2 * s.l2", "groups * (s.rows or 1) * s.l2"),
    ("contributions", "return max(unit + self.total_rows**2 * row, ", "return max(unit + self.total_rows * row, "),
    ("contributions", "groups * unit + ((rest + 1) ** 2 + groups - 1) * row)", "Fraction(0))"),
    ("contributions", "rows is None or rows >= total", "True"),
    ("contributions", "not scaled or (public and not total)", "True"),
    ("contributions", "not scaled or fit", "True"),
    ("contributions", "Bounding(min(limits)", "Bounding(max(limits)"),
    ("noise", "len({name for name, *_ in of}) == len(of)", "True"),
    ("noise", "^ {*scales}", "- {*scales}"),
    ("noise", "len(blocks) * limits.l1(", "limits.l1("),
    ("noise", "s.round or (apart and ", "False or (apart and "),
    ("noise", "((each, groups if total is None else 1),)", "((each, 1),)"),
    ("noise", "a = max(a, u + a - n)", "a = max(a, u)"),
    ("noise", "(max(abs(n), t) + n) / 2", "(max(abs(n), t / 2) + n) / 2"),
    ("noise", 'fit = kinds == {"margin"} and not joint', "fit = not joint"),
    ("noise", "require(_limits(own, statistic), name", "require(True, name"),
    ("noise", 'least >= own["centre"], name', "True, name"),
    ("noise", 'and other["nulls"] is None', ""),
    ("noise", 'own["column"] == other["column"]', "True"),
    ("noise", "limits.shown * sum(near)", "limits.groups * sum(near)"),
    ("noise", "max(inside - sum(near), 0)", "(inside - sum(near))"),
    ("noise", "max(sum(far) + rest, far[0] + sum(near[1:]))", "sum(far) + rest"),
    ("noise", "1 << noise[\"fine_bits\"]", "1 << 40"),
    ("noise", "whole == limits.shown, f\"noise.levels", "True, f\"noise.levels"),
    ("noise", "full * total[\"cells\"] ** 2 + part**2", "full * total[\"cells\"] ** 2"),
    ("noise", "falling = weights[0] == one and ", "falling = True or "),
    ("noise", "sums[t + 1] - sums[max(0, t + 1 - columns)]", "weights[t]"),
    ("noise", "squared(j), (i + 1) * one**2)", "squared(j), (j + 1) * one**2)"),
    ("selection", 'units[0]["one"] == 1', "True"),
    ("selection", '2 * rule["threshold"] - 3', '2 * rule["threshold"] - 2'),
    ("selection", "exp_above(-reach) / 2 if", "exp_above(-2 * reach) / 2 if"),
    ("selection", "off = (erlang[j] + off) / 2", "off = 0"),
    ("selection", "density / 2.0**j", "0"),
    ("selection", "total += both if units else erlang[j]", "total += erlang[j]"),
    ("selection", "range(1, numbers + 1):\n        off", "range(1, numbers):\n        off"),
    ("selection", "left = any_of_many(chance, lone), groups - before - 1", "left = any_of_many(chance, lone), groups - lone - 1"),
    ("parts", "any_of_many(rule[\"delta\"], k)", "rule[\"delta\"]"),
    ("parts", 'Loss(pure=((rule["epsilon"], k),)), any', "Loss(), any"),
    ("parts", "times = groups if limits", "times = 1 if limits"),
    ("parts", "max(target[\"rank\"], 1 - target[\"rank\"])", "1 - target[\"rank\"]"),
    ("parts", "(max(down) + up)", "max(max(down), up)"),
    ("parts", 'Fraction(1) if t["within"] else own', "own"),
    ("parts", "((most / noise[\"scale\"], k),)", "((most / noise[\"scale\"], 1),)"),
    ("parts", "lower >= 0 and candidates >= k", "True"),
    ("parts", "(margin - most + 1)", "(margin + most + 1)"),
    ("parts", "delta <= part[\"delta\"]", "True"),
    ("certificate", "epsilon <= claim[0] and delta <= claim[1]", "delta <= claim[1]"),
    ("composition", "math.tanh(w / 4)", "math.tanh(w / 5)"),
    ("composition", "+ 2.0**-46", "* 0.5"),
    ("composition", "top * math.exp(-last * w)", "0.0"),
    ("composition", "right**times * exp_above(-i * loss)", "right**times * exp_above(-2 * i * loss)"),
    ("composition", "(times - 2 * i) * loss)", "(times - i) * loss)"),
    ("composition", "math.floor(epsilon / step) + 1, first", "math.floor(epsilon / step) + 2, first"),
    ("composition", ">> bits) + 1 for i", ">> bits) * 7 // 8 for i"),
    ("composition", "reach += times * (len(own) // 2)", "reach += len(own) // 2"),
    ("numbers", "ends = epsilon / mu - mu / 2", "ends = epsilon / mu - mu / 4"),
    ("numbers", "math.exp(power) * WIDE, _TINY", "math.exp(power) * _NARROW, _TINY"),
    ("numbers", "root + (root * root < square)", "root"),
    ("numbers", "(near + far) * _NEAR", "-(near + far) * _NEAR * 10**20"),
]  # fmt: skip


def survives(module: str, old: str, new: str) -> bool:
    """Whether no test fails with a fault; run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "sfumato"
        shutil.copytree(PACKAGE / "certificate", place / "certificate")
        shutil.copy(PACKAGE / "__init__.py", place)
        path = place / "certificate" / f"{module}.py"
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{module}: {text.count(old)} times there: {old}")
        path.write_text(text.replace(old, new))
        child = os.fork()
        if not child:
            os._exit(int(_run(folder)))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _run(folder: str) -> int:
    import pytest

    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    tests = ModuleType("tests")
    tests.__path__ = [str(HERE.parent)]
    sys.modules["tests"] = tests
    (settings := Path(folder) / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    off = ["-p", "no:sfumato", "-p", "no:randomly", "-p", "no:cacheprovider", "--noconftest"]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return pytest.main(
            ["-x", "-q", *off, "-m", "not long", "-c", str(settings), "--import-mode=importlib"]
            + [str(HERE / name) for name in TESTS]
        )


if __name__ == "__main__":
    for name in ("pytest", "mpmath", "numpy", "scipy.optimize"):
        importlib.import_module(name)  # once for all
    asked = [fault for fault in FAULTS if fault[0] in (sys.argv[1:] or fault[0])]
    found = 0
    for fault in asked:
        if survives(*fault):
            found += 1
            print("no test finds:", *fault, sep="\n    ", flush=True)
    print(f"{len(asked) - found} of {len(asked)} faults found")
    sys.exit(bool(found))
