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
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "src" / "sfumato"
TESTS = [
    "test_certify.py",
    "test_contributions.py",
    "test_noise.py",
    "test_composition.py",
    "test_fields.py",
    "test_time.py",
]
# Tests that take longer than others, so that they come last.
SLOW = (
    "test_joint_k_norm",
    "test_no_choice_of_columns",
    "test_weaker_fields",
    "test_coins_beside_laplace_noise",
    "test_laplace_noises_that_are_alike",
    "test_no_bound_is_below",
    "test_many_pure_losses_beside_gaussian_noise",
    "test_no_description_takes_long",
    "test_the_largest_losses",
    "test_many_pure_losses_beside_laplace_noise",
)
# A module, its text, and what stands there instead.
FAULTS = [
    ("unit_loss", 'abs(end - bounds["centre"])', "abs(end)"),
    ("unit_loss", "return int(max(abs(", "return int(min(abs("),
    ("unit_loss", "[Fraction(0)] if bounds", "[] if bounds"),
    ("unit_loss", "max(abs(c), abs(math.floor(top + off) - c))", "abs(math.floor(top + off) - c)"),
    ("unit_loss", "max(abs(c), abs(math.floor(top + off) - c))", "abs(c)"),
    ("unit_loss", "abs(math.floor(top + off) - c)", "abs(math.floor(top) - c)"),
    ("unit_loss", '[(beside["name"], beside["one"])] if', '[(beside["name"], Fraction(1))] if'),
    ("unit_loss", 'one * statistic["weight"]) for name', "one) for name"),
    ("unit_loss", 'most * -(-half_range(values) >> values["bits"])', 'most * (half_range(values) >> values["bits"])'),
    ("unit_loss", "one *= max(math.ceil(parts), whole - math.floor(parts))", "one *= math.ceil(parts)"),
    ("unit_loss", 'one * statistic.get("values", 1)', "one"),
    ("unit_loss", "Fraction(halves[i] * halves[j], 1 << bits)", "Fraction(halves[i], 1 << bits)"),
    ("unit_loss", "Fraction(bits > 0, 2)", "Fraction(0)"),
    ("unit_loss", "require(i <= j < len(columns)", "require(True"),
    ("unit_loss", "len({of for _, of, *_ in products}) == len(products)", "True"),
    ("unit_loss", "low - end * (1 - part)", "0 - end"),
    ("unit_loss", "(abs(x - centre) + off) / scales[name] for x", "abs(x - centre) / scales[name] for x"),
    ("unit_loss", "for x in (0, largest))", "for x in (largest, largest))"),
    ("unit_loss", "l2 + low**2", "l2"),
    ("unit_loss", "gains[of] = gains.get(of, 0) + high**2 - low**2", "pass"),
    ("unit_loss", "for of, gain in gains.items() if not of & zero", "for of, gain in gains.items() if not zero"),
    ("unit_loss", "{of: max(gain, Fraction(0)) for", "{of: min(gain, Fraction(0)) for",),
    ("unit_loss", "l2 += max(total(gain", "l2 += min(total(gain"),
    ("unit_loss", "return l1 + extra, l2 + extra**2", "return l1, l2"),
    ("unit_loss", "return max(l1, extra), max(l2, extra**2)", "return l1, l2"),
    ("unit_loss", "pairs = ((max(pairs)[0], many),)", "pairs = ((min(pairs)[0], many),)"),
    ("unit_loss", 'statistic["levels"] if kind == "nodes" else', '1 if kind == "nodes" else'),
    ("unit_loss", 'statistic["length"] if ball == "linf" else 1', "1"),
    ("unit_loss", 'l1 *= Fraction(1 + math.isqrt((statistic["length"] << 512) - 1), 1 << 256)', "pass"),
    ("unit_loss", "pairs if l1 == whole else ()", "pairs"),
    ("unit_loss", "return rows or 1, self.groups", "return 1, self.groups"),
    ("unit_loss", "return self.total_rows, 1", "return 1, 1"),
    ("unit_loss", "k * (s.rows or 1) ** 2 * s.l2", "k * (s.rows or 1) * s.l2"),
    ("unit_loss", "return max(unit + most**2 * row, ", "return max(unit + most * row, "),
    ("unit_loss", "k * unit + ((most - k + 1) ** 2 + k - 1) * row)", "Fraction(0))"),
    ("unit_loss", "not most or not rows or rows >= most", "True"),
    ("unit_loss", 'not (scaled and (most or keys == "private"))', "True"),
    ("unit_loss", "not scaled or fit", "True"),
    ("unit_loss", "return Bounding(min(", "return Bounding(max("),
    ("unit_loss", "sorted(scales) == sorted(name for name, _ in named)", "sorted(scales) == sorted(coordinates)"),
    ("unit_loss", "sorted(scales) == sorted(name for name, _ in named)", "{*scales} >= {*coordinates}"),
    ("unit_loss", 'len(noise["blocks"]) * (limits', "1 * (limits"),
    ("unit_loss", "require(limits.shown and not limits.total_rows, ", "require(True, "),
    ("unit_loss", "Loss(laplace=pairs) if pairs else Loss((coin,))", "Loss(laplace=pairs)"),
    ("unit_loss", 'not any(own["kind"] in _MANY for own in statistics)', "True"),
    ("unit_loss", "not joint or limits.shown", "True"),
    ("unit_loss", 'limits.total_rows and all(own.get("rows") for own in statistics)', "limits.total_rows"),
    ("unit_loss", "if joint or units:", "if units:"),
    ("unit_loss", "norm = max(moves[units:]) + (abs(moves[0] - moves[1]) if units else 0)", "norm = max(moves)"),
    ("unit_loss", "norm = max(moves[units:])", "norm = moves[units]"),
    ("unit_loss", "1 if one else limits.groups", "1"),
    ("unit_loss", "count and all(_limits(own, other) for other in rest)", "count"),
    ("unit_loss", 'count = least >= own["centre"]', "count = True"),
    ("unit_loss", 'and other["nulls"] is None', ""),
    ("unit_loss", 'and other["column"] == own.get("column")', ""),
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
    ("composition", "(-decimal(x)).exp() / 2", "(-2 * decimal(x)).exp() / 2"),
    ("composition", "off, term = (erlang + off) / 2,", "off, term = off,"),
    ("composition", "density / 2**j", "0"),
    ("composition", "found += (erlang + term + off + density / 2**j) / 2 if units else erlang", "found += erlang"),
    ("composition", "for j in range(1, numbers + 1)", "for j in range(1, numbers)"),
    ("certificate", 'any_of_many(chance, limits.groups)', 'chance'),
    ("certificate", 'loss + pure(rule["epsilon"], limits.groups)', "loss"),
    ("certificate", "1 if limits.total_rows else limits.groups, _RANGED", "1, _RANGED"),
    ("certificate", "_RANGED = 8", "_RANGED = 80"),
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
    ("composition", "Decimal(-1), stick(t, end)", "Decimal(0), stick(t, end)"),
    ("composition", "odds * (times - i)", "odds * odds * (times - i)"),
    ("composition", "(n - 2 * i) * loss)", "(n - i) * loss)"),
    ("composition", "math.floor(epsilon / step) + 1, first", "math.floor(epsilon / step) + 2, first"),
    ("composition", "max(1 - odds * t, Decimal(0))", "0"),
    ("composition", "(rise - slope) * t)", "(rise - slope) * t / 2)"),
    ("composition", "slope, height, t = rise, following", "slope, height, t = slope, following"),
    ("composition", "width - digits]) + 1 for i", "width - digits]) * 7 // 8 for i"),
    ("composition", "one[0] + other[0] + low, ", "one[0] + low, "),
    ("composition", "-more * e, ", "-order * e, "),
    ("composition", "[sum(chances[: low + 1]), ", "[chances[low], "),
    ("composition", "one[0] + other[0] + low, ", "one[0] + other[0], "),
    ("composition", "if place < len(self.coins) else", "if place > len(self.coins) else"),
    ("composition", "many = _added(many, own, digits) if bit", "many = many if bit"),
    ("composition", "((pure or Fraction(0), 1),) if on_grid else pairs", "() if on_grid else pairs"),
    ("composition", "self.laplace and pure is not None", "self.laplace"),
    ("composition", "low, high = e / mu - mu / 2", "low, high = e / mu - mu / 4"),
    ("composition", "max(x + parts * _NEAR, _LEAST)", "x + parts * _NEAR"),
    ("composition", "1 - 1 / exp_above(-epsilon)", "1 - exp_above(epsilon)"),
    ("composition", "_LEAST if low > 40 else 1", "_LEAST"),
    ("composition", "(total(loss * times for loss, times in pairs), 1)", "(total(loss for loss, times in pairs), 1)"),
    ("composition", "x + parts * _NEAR", "x - parts * _NEAR * 10**20"),
    ("unit_loss", "rows**2 * own.l2 / 2", "rows * own.l2 / 2"),
    ("composition", "pole = 1 / (1 + (x * _TURN).exp()) if x < _TURN else 0", "pole = 0"),
    ("composition", "range(1, 103, 2)", "range(1, 33, 2)"),
    ("composition", "noise / 2 + total(rho * times for", "noise / 4 + total(rho * times for"),
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


class _QuickFirst:
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: [item.name.startswith(name) for name in reversed(SLOW)])


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
            + [str(HERE / name) for name in TESTS],
            plugins=[_QuickFirst()],
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
