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
TESTS = [
    "test_certify.py",
    "test_fields.py",
    "test_contributions.py",
    "test_noise.py",
    "test_composition.py",
    "test_time.py",
]
# A module, its text, and what stands there instead.
FAULTS = [
    ("unit_loss", 'abs(end - bounds["centre"])', "abs(end)"),
    ("unit_loss", "return int(max(abs(", "return int(min(abs("),
    ("unit_loss", "[Fraction(0)] if bounds", "[] if bounds"),
    ("unit_loss", "max(abs(c), abs(math.floor(top + off) - c))", "abs(math.floor(top + off) - c)"),
    ("unit_loss", "max(abs(c), abs(math.floor(top + off) - c))", "abs(c)"),
    ("unit_loss", "abs(math.floor(top + off) - c)", "abs(math.floor(top) - c)"),
    ("unit_loss", '[*sums, *ends, *((own["name"], own["one"]) for own in beside)]', '[*sums, *ends, *((own["name"], Fraction(1)) for own in beside)]'),
    ("unit_loss", 'one * statistic["weight"]) for name', "one) for name"),
    ("unit_loss", 'most * -(-half_range(values) >> values["bits"])', 'most * (half_range(values) >> values["bits"])'),
    ("unit_loss", "one *= max(math.ceil(parts), whole - math.floor(parts))", "one *= math.ceil(parts)"),
    ("unit_loss", 'one *= statistic["values"]', "pass"),
    ("unit_loss", "Fraction(halves[i] * halves[j], 1 << bits)", "Fraction(halves[i], 1 << bits)"),
    ("unit_loss", "Fraction(bits > 0, 2)", "Fraction(0)"),
    ("unit_loss", "require(i <= j < len(columns)", "require(True"),
    ("unit_loss", "len({of for _, of, *_ in products}) == len(products)", "True"),
    ("unit_loss", "most = max(most, end * (part - 1)", "most = max(most, -end"),
    ("unit_loss", "(centre + off - largest * part**2) / scale", "(centre - largest * part**2) / scale"),
    ("unit_loss", "for x in (0, largest))", "for x in (largest, largest))"),
    ("unit_loss", "low, high = (((abs(x - centre) + off) / scale)", "low, high = ((abs(x - centre) / scale)"),
    ("unit_loss", "gains[i] += high - low", "pass"),
    ("unit_loss", "shared.append(({i, j}, high - low))", "pass"),
    ("unit_loss", "if len(losses) > _TRIED:\n        return whole", "if len(losses) > _TRIED:\n        return whole / 2"),
    ("unit_loss", "return whole + max(", "return whole + min("),
    ("unit_loss", "return l1 + extra, l2 + extra**2", "return l1, l2"),
    ("unit_loss", "return max(l1, extra), max(l2, extra**2)", "return l1, l2"),
    ("unit_loss", "pairs = ((max(pairs)[0], many),)", "pairs = ((min(pairs)[0], many),)"),
    ("unit_loss", 'statistic["levels"] if kind == "nodes" else', '1 if kind == "nodes" else'),
    ("unit_loss", 'statistic["length"] if ball == "linf" else 1', "1"),
    ("unit_loss", 'l1 *= root_above(Fraction(statistic["length"]))', "pass"),
    ("unit_loss", "pairs if l1 == whole else ()", "pairs"),
    ("unit_loss", "(rows, self.groups) if self.total_rows is None", "(1, self.groups) if self.total_rows is None"),
    ("unit_loss", "k * (s.rows or 1) ** 2 * s.l2", "k * (s.rows or 1) * s.l2"),
    ("unit_loss", "return max(unit + most**2 * row, ", "return max(unit + most * row, "),
    ("unit_loss", "k * unit + ((most - k + 1) ** 2 + k - 1) * row)", "Fraction(0))"),
    ("unit_loss", "not most or not rows or rows >= most", "True"),
    ("unit_loss", 'not (scaled and (most or keys == "private"))', "True"),
    ("unit_loss", "not scaled or fit", "True"),
    ("unit_loss", "return Bounding(min(", "return Bounding(max("),
    ("unit_loss", "len(coordinates) == len(named)", "True"),
    ("unit_loss", "^ {*scales}", "- {*scales}"),
    ("unit_loss", "len(noise[\"blocks\"]) * limits.l1(", "limits.l1("),
    ("unit_loss", "require(limits.shown and not limits.total_rows, ", "require(True, "),
    ("unit_loss", "if own.pairs else whole", "if own.pairs else Loss()"),
    ("unit_loss", "kinds.isdisjoint(_MANY)", "True"),
    ("unit_loss", "not joint or limits.shown", "True"),
    ("unit_loss", "require(by_row, ", "require(True, "),
    ("unit_loss", "if joint or units:", "if units:"),
    ("unit_loss", "norm = max(moves[units:]) + (abs(moves[0] - moves[1]) if units else 0)", "norm = max(moves)"),
    ("unit_loss", "norm = max(moves[units:])", "norm = moves[units]"),
    ("unit_loss", "1 if joint else times", "1"),
    ("unit_loss", "require(_limits(own, coordinates[other][0]), name", "require(True, name"),
    ("unit_loss", 'least >= own["centre"], name', "True, name"),
    ("unit_loss", 'and other["nulls"] is None', ""),
    ("unit_loss", 'and other["column"] == own["column"]', ""),
    ("unit_loss", "(limits.shown or 0) * sum(w * w", "k * sum(w * w"),
    ("unit_loss", "lines = {(zero, zero), (l2", "lines = {(l2"),
    ("unit_loss", "(l2, whole), (moves[0] ** 2, moves[0] * weights[0])}", "(l2, whole)}"),
    ("unit_loss", '1 << noise["fine_bits"]', "1 << 40"),
    ("unit_loss", "whole == limits.shown, f", "True, f"),
    ("unit_loss", "steps * noise[\"series\"] == limits.shown", "True"),
    ("unit_loss", 'full * own["cells"] ** 2 + part**2', 'full * own["cells"] ** 2'),
    ("unit_loss", "falling = weights[0] == one and ", "falling = True or "),
    ("unit_loss", "sums[t + 1] - sums[max(0, t + 1 - columns)]", "weights[t]"),
    ("unit_loss", "squared(j), (i + 1) * one**2)", "squared(j), (j + 1) * one**2)"),
    ("unit_loss", 'units[0]["one"] == 1', "True"),
    ("unit_loss", '2 * rule["threshold"] - 3', '2 * rule["threshold"] - 2'),
    ("composition", "return exp_above(-x) / 2", "return exp_above(-2 * x) / 2"),
    ("composition", "off = (erlang[j] + off) / 2", "off = 0"),
    ("composition", "density / 2**j", "0"),
    ("composition", "found += both if units else erlang[j]", "found += erlang[j]"),
    ("composition", "range(1, numbers + 1):\n            off", "range(1, numbers):\n            off"),
    ("certificate", 'any_of_many(chance, limits.groups)', 'chance'),
    ("certificate", 'beside + Loss(pure=((rule["epsilon"], limits.groups),))', "beside"),
    ("certificate", "noise_losses(part, limits), limits.groups if", "noise_losses(part, limits), 1 if"),
    ("certificate", 'max(target["rank"], 1 - target["rank"])', '1 - target["rank"]'),
    ("certificate", "(max(down) + up)", "max(max(down), up)"),
    ("certificate", 'Fraction(1) if t["within"] else own', "own"),
    ("certificate", "_moved(noise, most, k)", "_moved(noise, most, 1)"),
    ("certificate", "lower >= 0 and candidates >= k", "True"),
    ("certificate", "(margin - most + 1)", "(margin + most + 1)"),
    ("certificate", '1 - events if part["kind"] == "groups" else 1', "1 - 2 * events"),
    ("certificate", 'delta <= part["delta"]', "True"),
    ("certificate", 'found.epsilon <= known["epsilon"] and ', ""),
    ("composition", "min(t, (t / end).sqrt())", "(t / end).sqrt()"),
    ("composition", "(t / end).sqrt()), Decimal(0))", "t / end), Decimal(0))"),
    ("composition", "Decimal(-1), stick(t)", "Decimal(0), stick(t)"),
    ("composition", "odds * (times - i)", "odds * odds * (times - i)"),
    ("composition", "(n - 2 * i) * loss)", "(n - i) * loss)"),
    ("composition", "math.floor(epsilon / step) + 1, losses.first", "math.floor(epsilon / step) + 2, losses.first"),
    ("composition", "max(1 - odds * t, Decimal(0))", "0"),
    ("composition", "(rise - slope) * t)", "(rise - slope) * t / 2)"),
    ("composition", "slope, height, t = rise, following", "slope, height, t = slope, following"),
    ("composition", "width - digits]) + 1 for i", "width - digits]) * 7 // 8 for i"),
    ("composition", "one.first + other.first + low", "one.first + low"),
    ("composition", "-(order - 1) * e, ", "-order * e, "),
    ("composition", "chances[low] += sum(chances[:low])", "pass"),
    ("composition", "one.first + other.first + low, ", "one.first + other.first, "),
    ("composition", "Decimal(losses.beyond)", "Decimal(0)"),
    ("composition", "return found + left * own", "return found"),
    ("composition", "own = Fraction(1) if rare", "own = Fraction(0) if rare"),
    ("composition", "chance * _MOST_MIXED * 10**30 < enough", "chance < enough"),
    ("composition", "low, high = epsilon / mu - mu / 2", "low, high = epsilon / mu - mu / 4"),
    ("composition", "max(x + parts * _NEAR, _LEAST)", "x + parts * _NEAR"),
    ("composition", "1 - 1 / exp_above(-epsilon)", "1 - exp_above(epsilon)"),
    ("composition", "_LEAST if low > 40 else 1", "_LEAST"),
    ("composition", "root + (root * root < square)", "root"),
    ("composition", "x + parts * _NEAR", "x - parts * _NEAR * 10**20"),
    ("unit_loss", "(own.l1**2 - own.l2) / 2)", "own.l1**2 / 2)"),
    ("description", "require(steps <= _steps_left.get()", "require(True"),
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
