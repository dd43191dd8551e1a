"""Chains that nobody would write, made by changing ones that somebody would, as `fuzz.py` does with SQL.

FUZZ=12000 FUZZ_SEED=2 python -m pytest -m long -s tests/service/test_fuzz.py -k chains
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from .fuzz import BODIES, COLUMNS, Fuzz
from .hostile_chains import NAMES, ODD, OPTIONS

BOUNDED = {"lower": 0, "upper": 5}
KEYS: dict[str, list[Any]] = {
    "year": [None, "private", [2020, 2021], [2020, 4217, None]],
    "town": [None, "private", ["Ulm", "Bonn"], ["", "Ulm"]],
    "flag": ["private", [True, False], [None]],
    "n": [[0, 1, 2**62], "private"],
}
TYPES = ["v", "n", "town", "year", "seconds", "flag"]


def asks(name: str, *args: Any, **named: Any) -> dict[str, Any]:
    """Return an aggregate as it is sent."""
    return {"asks": name, "args": list(args), "named": named}


class ChainFuzz:
    """Bodies of requests without end, chosen by a seed; of the tables of `fuzz.asked`.

    Args:
        random: chooses.
    """

    def __init__(self, random: random.Random) -> None:
        self.random, self._sql = random, Fuzz(random, [])

    def _part(self, kind: str = "n") -> str:
        return self._sql.part(self.random.randrange(3), kind)

    def _step(self, name: str) -> list[Any]:
        """Return a call that makes a table of a table."""
        choose = self.random
        match name:
            case "filter":
                return ["filter", [self._part("c")], {}]
            case "with_columns":
                of, kind = choose.choice(
                    [("v", "n"), ("n", "n"), ("town", "t"), ("seconds", "d"), ("w", "n")]
                )
                return ["with_columns", [], {of: self._part(kind)}]
            case "public":
                made = [["filter", ["region <> 'e'"], {}]] * choose.randrange(2)
                how = choose.choice(["inner", "left"])
                return ["join", [{"public": "towns", "calls": made}], {"on": "town", "how": how}]
            case "people":
                made = [
                    ["per_unit", [], {"m": choose.choice(["count(*)", f"max({self._part()})", "min(n)"])}]
                ]
                given = {"on": {"dict": [["id", "id"]]}, "rows": 1 + choose.randrange(3)}
                return ["join", [{"table": "people", "calls": made}], given]
            case "union":
                return ["union", [{"table": "visits", "calls": [self._step("filter")]}], {}]
            case "per_unit":
                made = {
                    "v": f"max({self._part()})",
                    "n": "count(*)",
                    "town": "min(town)",
                    "year": "max(year)",
                }
                return ["per_unit", [], made | {"seconds": "max(seconds)", "flag": "bool_or(flag)"}]
        columns = f"id, {self._part()} AS v, town, year, n, seconds, flag"
        return ["sql", [f"SELECT {columns} FROM self WHERE {self._part('c')}"], {}]

    def _aggregate(self) -> dict[str, Any]:
        """Return an aggregate, of a column that has numbers."""
        column = self.random.choice(["v", "v", "n"])
        return self.random.choice(
            [
                asks("count"), asks("count_units"), asks("count", column), asks("sum", column, **BOUNDED), asks("mean", column, **BOUNDED),
                asks("sum", column, **BOUNDED, per="row"), asks("variance", column, **BOUNDED), asks("stddev", column, lower=0, upper=1e3),
                asks("median", column, lower=0, upper=9), asks("quantiles", column, [0.1, {"fraction": "1/2"}], lower=0, upper=100),
                asks("max", column, **BOUNDED), asks("count_distinct", self.random.choice(TYPES), values=2),
                asks("histogram", column, [0, 1, 5, {"float": "inf"}]), asks("value_counts", "town", ["Ulm", "x"], other=True),
                asks("proportion", column, **BOUNDED), asks("min", column, lower={"decimal": "0.5"}, upper={"fraction": "7/2"}),
                asks("covariance", "v", "n", bounds={"dict": [["v", {"tuple": [0, 5]}], ["n", {"tuple": [0, 9]}]]}),
            ]
        )  # fmt: skip

    def chain(self) -> dict[str, Any]:
        """Return a chain that could be right."""
        choose = self.random
        names = [
            "filter",
            "filter",
            "with_columns",
            "with_columns",
            "public",
            "people",
            "union",
            "per_unit",
            "sql",
        ]
        calls = [self._step(name) for name in choose.sample(names, choose.randrange(4))]
        if choose.random() < 0.1:
            named = {"k": 1 + choose.randrange(3), "by": choose.choice([None, asks("sum", "v", **BOUNDED)])}
            calls.append(["top", [choose.choice(["town", "year"])], named])
            return {"table": "visits", "calls": calls}
        keys = choose.sample(sorted(KEYS), choose.choice([0, 1, 1, 1, 2]))
        if keys:
            given = choose.choice(KEYS[keys[0]]) if len(keys) == 1 else "private"
            calls.append(["group_by", keys, {"keys": given}])
        bounds = {"groups": 1 + choose.randrange(3), "rows": 1 + choose.randrange(3)}
        calls.append(["bound", [], dict(choose.sample(sorted(bounds.items()), 2)) if keys else {"rows": 2}])
        names = choose.sample(["a", "b", "c", "été"], choose.choice([1, 1, 2, 3]))
        calls.append(["agg", [], {name: self._aggregate() for name in names}])
        if choose.random() < 0.1:
            calls.append(["weigh", [], {names[0]: choose.choice([2, {"fraction": "1/3"}, 0, 1e9])}])
        return {"table": "visits", "calls": calls}

    def options(self) -> dict[str, Any]:
        """Return options of a release, mostly of one that can be made."""
        choose = self.random
        if choose.random() < 0.06:
            return dict(choose.choice(OPTIONS))
        found: dict[str, Any] = {"epsilon": choose.choice([1, "0.5", 3.0, {"fraction": "1/3"}])}
        if choose.random() < 0.8:
            found["delta"] = "1e-18"
        if choose.random() < 0.2:
            found["noise"] = choose.choice(["laplace", "gaussian", "auto", "k_norm"])
        if choose.random() < 0.1:
            name = choose.choice(["group_selection", "pre_threshold", "diagnostics", "auto_share", "counts"])
            found[name] = choose.choice(["laplace", 3, {"fraction": "1/20"}, False, "auto"])
        return found

    def change(self, data: Any) -> None:
        """Change something somewhere in what JSON has: a value is another one, twice there, or gone."""
        choose, places = self.random, list(_places(data))
        if not places:
            return
        of, key = choose.choice(places)
        match choose.randrange(8):
            case 0:
                del of[key]
            case 1 if isinstance(of, list):
                of.insert(key, copy.deepcopy(of[key]))
            case 2:
                of[key] = copy.deepcopy(choose.choice(ODD))
            case 3:
                other, there = choose.choice(places)
                if there in other if isinstance(other, dict) else there < len(other):
                    of[key] = copy.deepcopy(other[there])
            case 4:
                of[key] = choose.choice([*COLUMNS, *NAMES, *TYPES])
            case 5:
                of[key] = self._part(choose.choice("ntdc"))
            case 6 if isinstance(of, dict):
                of[choose.choice([*NAMES, "lower", "rows", "keys", "on", "expression"])] = of.pop(key)
            case _:
                of[key] = copy.deepcopy(choose.choice(BODIES))

    def body(self) -> dict[str, Any]:
        """Return the body of a question, mostly one that is right."""
        found = {"chain": self.chain(), "options": self.options()}
        if self.random.random() < 0.4:
            for _ in range(self.random.randrange(1, 4)):
                self.change(found)
        return found

    def requests(self) -> Iterator[tuple[str, bytes, dict[str, str]]]:
        """Give paths, bodies and headers of questions without end."""
        while True:
            path = self.random.choice(["/v1/release", "/v1/release", "/v1/ask"])
            body = self.body() | ({"units": []} if path == "/v1/ask" else {})
            yield path, json.dumps(body).encode(), {}


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Give the lists and objects in what JSON has, with each key of theirs."""
    if isinstance(data, (list, dict)):
        for key, one in list(enumerate(data) if isinstance(data, list) else data.items()):
            yield data, key
            yield from _places(one)
