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
    ("contributions", "return int(max(abs(", "return int(min(abs("),
    ("contributions", "[Fraction(0)] if bounds", "[] if bounds"),
    ("contributions", "max(abs(c), abs(math.floor(top + off) - c))", "abs(math.floor(top + off) - c)"),
    ("contributions", "max(abs(c), abs(math.floor(top + off) - c))", "abs(c)"),
    ("contributions", "abs(math.floor(top + off) - c)", "abs(math.floor(top) - c)"),
    ("contributions", '[*sums, *ends, *((own["name"], own["one"]) for own in beside)]', '[*sums, *ends, *((own["name"], Fraction(1)) for own in beside)]'),
    ("contributions", 'one * statistic["weight"]) for name', "one) for name"),
    ("contributions", 'most * -(-half_range(values) >> values["bits"])', 'most * (half_range(values) >> values["bits"])'),
    ("contributions", "one *= max(math.ceil(parts), whole - math.floor(parts))", "one *= math.ceil(parts)"),
    ("contributions", 'one *= statistic["values"]', "pass"),
    ("contributions", "Fraction(halves[i] * halves[j], 1 << bits)", "Fraction(halves[i], 1 << bits)"),
    ("contributions", "Fraction(bits > 0, 2)", "Fraction(0)"),
    ("contributions", "require(i <= j < len(columns)", "require(True"),
    ("contributions", "len({of for _, of, *_ in products}) == len(products)", "True"),
    ("contributions", "most = max(most, end * (part - 1)", "most = max(most, -end"),
    ("contributions", "(centre + off - largest * part**2) / scale", "(centre - largest * part**2) / scale"),
    ("contributions", "for x in (0, largest))", "for x in (largest, largest))"),
    ("contributions", "low, high = (((abs(x - centre) + off) / scale)", "low, high = ((abs(x - centre) / scale)"),
    ("contributions", "if of & corner == of)", "if corner + 1 == 1 << len(ends))"),
    ("contributions", "default=sum(max(gain, 0) for _, gain in whole)", "default=0"),
    ("contributions", "return l1 + extra, l2 + extra**2", "return l1, l2"),
    ("contributions", "return max(l1, extra), max(l2, extra**2)", "return l1, l2"),
    ("contributions", "pairs = ((max(pairs)[0], many),)", "pairs = ((min(pairs)[0], many),)"),
    ("contributions", 'statistic["levels"] if kind == "nodes" else', '1 if kind == "nodes" else'),
    ("contributions", 'statistic["length"] if ball == "linf" else 1', "1"),
    ("contributions", 'l1 *= root_above(Fraction(statistic["length"]))', "pass"),
    ("contributions", "pairs if l1 == whole else ()", "pairs"),
    ("contributions", "(rows, self.groups) if self.total_rows is None", "(1, self.groups) if self.total_rows is None"),
    ("contributions", "k * (s.rows or 1) ** 2 * s.l2", "k * (s.rows or 1) * s.l2"),
    ("contributions", "return max(unit + total**2 * row, ", "return max(unit + total * row, "),
    ("contributions", "k * unit + ((total - k + 1) ** 2 + k - 1) * row)", "Fraction(0))"),
    ("contributions", "not total or not rows or rows >= total", "True"),
    ("contributions", 'not (scaled and (total or keys == "private"))', "True"),
    ("contributions", "not scaled or fit", "True"),
    ("contributions", "return Bounding(min(", "return Bounding(max("),
    ("noise", "len(coordinates) == len(named)", "True"),
    ("noise", "^ {*scales}", "- {*scales}"),
    ("noise", "_blocks(noise, limits) * limits.l1(", "limits.l1("),
    ("noise", "require(limits.shown and not limits.total_rows, ", "require(True, "),
    ("noise", "corner if own.pairs else", "corner if corner.laplace or True else"),
    ("noise", "kinds.isdisjoint(MANY)", "True"),
    ("noise", "not joint or limits.shown", "True"),
    ("noise", "require(by_row, ", "require(True, "),
    ("noise", "if joint or units:", "if units:"),
    ("noise", "norm = max(moves[units:]) + (abs(moves[0] - moves[1]) if units else 0)", "norm = max(moves)"),
    ("noise", "norm = max(moves[units:])", "norm = moves[units]"),
    ("noise", "1 if joint else groups", "1"),
    ("noise", "require(_limits(own, coordinates[other][0]), name", "require(True, name"),
    ("noise", 'least >= own["centre"], name', "True, name"),
    ("noise", 'and other["nulls"] is None', ""),
    ("noise", 'and other["column"] == own["column"]', ""),
    ("noise", "(limits.shown or 0) * sum(w * w", "k * sum(w * w"),
    ("noise", "lines = {(zero, zero), (l2", "lines = {(l2"),
    ("noise", "(l2, whole), (moves[0] ** 2, moves[0] * weights[0])}", "(l2, whole)}"),
    ("noise", '1 << noise["fine_bits"]', "1 << 40"),
    ("noise", "whole == limits.shown, f", "True, f"),
    ("noise", 'full * total["cells"] ** 2 + part**2', 'full * total["cells"] ** 2'),
    ("noise", "falling = weights[0] == one and ", "falling = True or "),
    ("noise", "sums[t + 1] - sums[max(0, t + 1 - columns)]", "weights[t]"),
    ("noise", "squared(j), (i + 1) * one**2)", "squared(j), (j + 1) * one**2)"),
    ("noise", 'units[0]["one"] == 1', "True"),
    ("noise", '2 * rule["threshold"] - 3', '2 * rule["threshold"] - 2'),
    ("noise", "exp_above(-reach) / 2 if", "exp_above(-2 * reach) / 2 if"),
    ("noise", "off = (erlang[j] + off) / 2", "off = 0"),
    ("noise", "density / 2**j", "0"),
    ("noise", "total += both if units else erlang[j]", "total += erlang[j]"),
    ("noise", "range(1, numbers + 1):\n            off", "range(1, numbers):\n            off"),
    ("certificate", 'any_of_many(rule["delta"], limits.groups)', 'rule["delta"]'),
    ("certificate", "any_of_many(lone_chance(part), limits.groups)", "lone_chance(part)"),
    ("certificate", 'losses = [loss + Loss(pure=((rule["epsilon"], limits.groups),)) for loss in losses]', "pass"),
    ("certificate", "times = limits.groups if", "times = 1 if"),
    ("certificate", 'max(target["rank"], 1 - target["rank"])', '1 - target["rank"]'),
    ("certificate", "(max(down) + up)", "max(max(down), up)"),
    ("certificate", 'Fraction(1) if t["within"] else own', "own"),
    ("certificate", "_moved(noise, most, k)", "_moved(noise, most, 1)"),
    ("certificate", "lower >= 0 and candidates >= k", "True"),
    ("certificate", "(margin - most + 1)", "(margin + most + 1)"),
    ("certificate", '1 - events if part["kind"] == "groups" else 1', "1 - 2 * events"),
    ("certificate", 'delta <= part["delta"]', "True"),
    ("certificate", "epsilon <= claim[0] and delta <= claim[1]", "delta <= claim[1]"),
    ("composition", "math.tanh(w / 4)", "math.tanh(w / 5)"),
    ("composition", "+ 2.0**-46", "* 0.5"),
    ("composition", "top * math.exp(-last * w)", "0.0"),
    ("numbers", "odds * (times - i)", "odds * odds * (times - i)"),
    ("composition", "(n - 2 * i) * loss)", "(n - i) * loss)"),
    ("composition", "math.floor(epsilon / step) + 1, first", "math.floor(epsilon / step) + 2, first"),
    ("composition", "math.expm1(up) / math.expm1(w)", "math.expm1(up) / math.expm1(w) / 2"),
    ("composition", "found[i + 1] += chance", "found[i + 1] += chance / 2"),
    ("composition", "epsilon -= sum((x - min(x, _LARGEST_LOSS)) * n for x, n in laplace + coins)", "pass"),
    ("composition", ">> bits) + 1 for i", ">> bits) * 7 // 8 for i"),
    ("composition", "reach + times * (len(one) // 2)", "reach + len(one) // 2"),
    ("composition", "-(order - 1) * e, ", "-order * e, "),
    ("composition", "max(math.exp(min(power, 1.0)) * WIDE, TINY)", "math.exp(min(power, 1.0)) * WIDE"),
    ("numbers", "low, high = epsilon / mu - mu / 2", "low, high = epsilon / mu - mu / 4"),
    ("numbers", "max(x + parts * _NEAR, Decimal(TINY))", "x + parts * _NEAR"),
    ("numbers", "1 - 1 / exp_above(-epsilon)", "1 - exp_above(epsilon)"),
    ("numbers", "TINY if low > 40 else 1", "TINY"),
    ("numbers", "root + (root * root < square)", "root"),
    ("numbers", "x + parts * _NEAR", "x - parts * _NEAR * 10**20"),
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
