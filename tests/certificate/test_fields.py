"""Each field of a description, weakened alone: it is refused, or the bound shows that it does no harm."""

import copy

import pytest

from sfumato.certificate import CertificateError, certify
from tests.certificate.plans import PLANS

# Where more of it is worse, or less; numbers are changed by some percent, whole numbers by 1 at least.
MORE = {
    "one", "rows", "per_unit", "values", "levels", "length", "radius", "weight", "picks", "rate", "upper",
    "total_rows", "candidates", "weights", "rank", "square_centre", "within",
}  # fmt: skip
LESS = {"lower", "threshold", "margin", "size", "common", "scale", "scales", "epsilon", "delta"}
SWITCHES = {
    "keys": ["public", "private", "brought"],
    "beyond": ["sample", "scale", "share"],
    "neighbours": ["one_unit", "one_answer"],
    "law": ["laplace", "gaussian"],
    "body": ["cone", "cube"],
    "ball": ["l1", "l2", "linf"],
}
# What is certified all the same, and why it does no harm.
SCALING = "scaled contributions are means of those of fewer groups; here no count must be divisible"
CUT = "scaled counts of leaves are cut towards zero"
HARMLESS = {
    ("squares", "parts.0.groups.beyond"): SCALING,
    ("vector", "parts.0.groups.beyond"): SCALING,
    ("cross", "parts.0.groups.beyond"): SCALING,
    ("nodes", "parts.0.groups.beyond"): CUT,
    ("margins", "parts.0.groups.beyond"): CUT,
    ("vector", "parts.0.statistics.0.ball"): "the L1 ball is inside the L2 ball",
    (
        "cross",
        "parts.0.statistics.0.columns.0.square_centre",
    ): "the sum is small where the square is below its centre",
    ("cross", "parts.0.statistics.0.columns.1.square_centre"): "nobody adds up squares of that column",
    ("units of their own", "parts.0.statistics.1.missing"): "0 is within the bounds",
    (
        "units of their own",
        "parts.0.statistics.2.matched",
    ): "a matching moves by no more than a sum over units",
    ("rows in all", "parts.0.groups.per_unit"): "three rows are in at most three groups",
    ("rows in all", "parts.0.statistics.1.rows"): "three rows in all are at most three in a group",
    ("gaussian", "parts.0.noise.law"): "Laplace noise of these scales has a pure epsilon of 0.47",
    ("k-norm threshold", "parts.0.noise.body"): "without units of their own, noise of a group has one norm",
    ("margins", "parts.0.noise.body"): "without units of their own, noise of a group has one norm",
    ("joint", "parts.0.groups.per_unit"): "one draw hides any number of groups",
    ("values", "parts.0.groups.per_unit"): "one draw hides any number of groups",
    ("joint", "parts.0.noise.units"): "units limit the rest without rows between them, with the same norm",
    ("two gaussian parts", "parts.0.noise.law"): "Laplace noise of these scales has a pure epsilon of 0.33",
    ("two gaussian parts", "parts.1.noise.law"): "Laplace noise of these scales has a pure epsilon of 0.33",
    ("centred", "parts.0.noise.counts.0.weight"): "twice as much of the number in common is more noise",
}


def leaves(value, path=()):
    if isinstance(value, dict):
        for name, own in value.items():
            yield from leaves(own, (*path, name))
    elif isinstance(value, list):
        for i, own in enumerate(value):
            yield from leaves(own, (*path, i))
    else:
        yield path, value


def replaced(description, path, value):
    found = copy.deepcopy(description)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return found


def named(path):
    """The field of a leaf: of a list, or of scales, what these are called."""
    if "scales" in path:
        return "scales"
    return [step for step in path if isinstance(step, str)][-1]


def weakened(path, value):
    field = named(path)
    if field in SWITCHES:
        return [other for other in SWITCHES[field] if other != value]
    if isinstance(value, bool):
        return [not value]
    if field not in MORE | LESS:
        return []
    part = 4 if field in MORE or ("selection" in path and field in ("epsilon", "delta")) else -4
    if isinstance(value, int):
        return [value + (1 if part > 0 else -1)]
    if value is None or (field in ("epsilon", "delta") and value == "0"):
        return []
    over, _, under = value.partition("/")
    if field in ("lower", "upper", "one", "radius", "weight", "square_centre"):  # whole steps
        return [str(int(over) + (1 if part > 0 else -1) * max(1, abs(int(over)) // 25))]
    return [f"{int(over) * (100 + part)}/{int(under or 1) * 100}"]


def certified(description):
    try:
        certify(description)
    except CertificateError:
        return False
    return True


@pytest.mark.parametrize("plan", PLANS)
def test_fields_that_are_missing_or_unknown_are_refused(plan):
    def records(value, path=()):
        if isinstance(value, dict):
            yield path
            for name, own in value.items():
                yield from records(own, (*path, name))
        elif isinstance(value, list):
            for i, own in enumerate(value):
                yield from records(own, (*path, i))

    assert certified(PLANS[plan])
    for path in records(PLANS[plan]):
        for change in ("missing", "unknown"):
            found = copy.deepcopy(PLANS[plan])
            at = found
            for step in path:
                at = at[step]
            for name in list(at) if change == "missing" else ["more"]:
                kept = dict(at)
                at.pop(name, None)
                if change == "unknown":
                    at[name] = "1"
                assert not certified(found), (path, change, name)
                at.clear()
                at.update(kept)


@pytest.mark.parametrize("path", [("neighbours",), ("parts", 0, "kind"), ("parts", 0, "noise", "shape")])
def test_a_list_of_any_depth_is_no_name_of_a_record(path):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    changed = copy.deepcopy(PLANS["laplace"])
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = deep
    assert not certified(changed)
    while deep:  # one by one, as freeing all at once takes a deep stack
        (deep,) = deep


def each_field():
    """Yield one leaf for each field and type of value that a kind of record has."""
    fields = set()
    for plan in PLANS:
        for path, old in leaves(PLANS[plan]):
            record = PLANS[plan]
            for step in path[:-1]:
                record = record[step]
            kind = record.get("kind", record.get("shape")) if isinstance(record, dict) else None
            field = (kind, type(old), *(step for step in path if isinstance(step, str)))
            if field not in fields:
                fields.add(field)
                yield plan, path, old


@pytest.mark.parametrize("value", [None, "x", 1.5, [], {}, "1e3", "01", "-0", "1/0", True, -1, "²"])
def test_values_of_another_form_are_refused(value):
    for plan, path, old in each_field():
        admitted = value == old or named(path) in ("unit", "name", "column", "names", "order") or (
            value is None and named(path) in ("total_rows", "rows", "nulls", "squares", "complete", "shown",
                                              "per_unit", "noise", "selection", "candidates", "margin")
        ) or (value is True and isinstance(old, bool))  # fmt: skip
        if not admitted:
            assert not certified(replaced(PLANS[plan], path, value)), path


@pytest.mark.parametrize("plan", PLANS)
def test_weaker_fields_are_refused_or_harmless(plan):
    found = set()
    for path, old in leaves(PLANS[plan]):
        for new in weakened(path, old):
            if certified(replaced(PLANS[plan], path, new)):
                found.add((plan, ".".join(map(str, path))))
    assert found == {one for one in HARMLESS if one[0] == plan}
