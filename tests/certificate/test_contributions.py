"""What units add, by the plain meaning of each statistic: it reaches the checker's bounds, and never exceeds them."""

import itertools
import math
import random
from fractions import Fraction

import pytest

from sfumato.certificate.description import CertificateError, read
from sfumato.certificate.unit_loss import _TRIED, Bounding, bounding, boxes, shift
from tests.certificate.descriptions import ROWS, independent, part

TRIES = 400


def number(value):
    return Fraction(value)


def cut(total, rows, limit):
    """What is left of a sum over `rows` rows where `limit` count, cut towards zero."""
    size = abs(total) if rows <= limit else abs(total) * limit // rows
    return size if total >= 0 else -size


class Kind:
    """A statistic, random rows of one unit in a group, and what these add."""

    def __init__(self, description, row, add, ends=()):
        self.description = read(description, "statistic")
        self.row, self.add, self.ends = row, add, ends


def rows_of(s, sums, rows):
    """Scale the sums over a unit's rows down."""
    return {name: cut(total, len(rows), s["rows"]) for name, total in sums.items()}


def added_rows(s, rows):
    return {s["name"]: min(len(rows), s["rows"]) * int(s["one"])}


def added_values(s, rows):
    values = sum(row is not None for row in rows) * int(s["one"])
    if len(rows) > s["rows"] and values:
        values = min(-(-values * s["rows"] // len(rows)) + 1, s["rows"] * int(s["one"]))
    return {s["name"]: values}


def added_row_sums(s, rows):
    nulls, squares, centre = s["nulls"], s["squares"], int(s["centre"])
    found = {s["name"]: sum(x - centre for x in rows if x is not None)}
    if nulls:
        found[nulls["name"]] = sum(x is None for x in rows) * int(nulls["one"])
    if squares:
        part = Fraction(2 ** squares["bits"])
        half = Fraction(1, 2) if squares["bits"] else 0
        each = [
            math.floor((x - centre) ** 2 / part + half) - int(squares["centre"])
            for x in rows
            if x is not None
        ]
        found[squares["name"]] = sum(each)
    return rows_of(s, found, rows)


def added_unit_sum(s, rows):
    values = [x for x in rows if x is not None]
    if s["missing"] and not values:
        return {s["name"]: -int(s["centre"])}
    return {s["name"]: min(max(sum(values), int(s["lower"])), int(s["upper"])) - int(s["centre"])}


def added_cross(s, rows):
    found = {}
    whole = [row for row in rows if all(x is not None for x in row)]
    x = [[row[i] - int(c["centre"]) for row in whole] for i, c in enumerate(s["columns"])]
    if s["complete"]:
        found[s["complete"]["name"]] = len(whole) * int(s["complete"]["one"])
    for column, values in zip(s["columns"], x, strict=True):
        found[column["name"]] = sum(values)
    for pair in s["pairs"]:
        i, j = pair["first"], pair["second"]
        off = int(s["columns"][i]["square_centre"]) if i == j else 0
        found[pair["name"]] = sum(a * b - off for a, b in zip(x[i], x[j], strict=True))
    return rows_of(s, found, rows)


def added_weighted(s, rows):
    values, weights = s["values"], 0
    total = 0
    for weight, x in rows:
        if x is not None:
            weights += weight
            total += math.floor(
                Fraction(weight * (x - int(values["centre"])), 2 ** values["bits"]) + Fraction(1, 2)
            )
    if len(rows) > s["rows"]:
        weights = -(-weights * s["rows"] // len(rows))
    return {s["name"]: weights, values["name"]: cut(total, len(rows), s["rows"])}


def added_bins(s, rows):
    most = int(s["one"]) * int(s["weight"])
    found = dict.fromkeys(s["names"], 0)
    for place, weight in rows:
        if place is not None:
            found[s["names"][place]] += most * weight // 4
    limit = s["rows"] or 1
    return {name: cut(total, len(rows), limit) for name, total in found.items()}


def added_nodes(s, rows):
    """Sums at the nodes of a binary tree, of which only the sizes matter here."""
    found = {}
    for level in range(1, s["levels"] + 1):
        for leaf in rows:
            if leaf is not None:
                node = (s["name"], level, leaf >> (s["levels"] - level))
                found[node] = found.get(node, 0) + int(s["one"])
    return {node: cut(total, len(rows), s["rows"]) for node, total in found.items()}


def added_vector(s, rows):
    """Rows, or their sum, are in the ball already."""
    vectors = [row for row in rows if row is not None]
    if s["rows"] is None:
        return {(s["name"], i): x for i, x in enumerate(vectors[0] if vectors else [])}
    sums = [sum(entries) for entries in zip(*vectors, strict=True)]
    return {(s["name"], i): cut(x, len(rows), s["rows"]) for i, x in enumerate(sums)}


SUM = {"kind": "row_sums", "name": "s", "column": "x", "rows": 3, "nulls": None, "squares": None}
RANGE = {"lower": "-7", "upper": "9", "centre": "1"}
NULLS, SQUARES = {"name": "z", "one": "5"}, {"name": "q", "bits": 2, "centre": "9"}


def value(low, high, missing=0.2):
    return lambda rng: None if rng.random() < missing else rng.choice([low, high, rng.randint(low, high)])


def vector(length, radius, ball):
    def drawn(rng):
        if ball == "linf":
            return [rng.choice([-radius, radius, rng.randint(-radius, radius)]) for _ in range(length)]
        found = [0] * length
        if rng.random() < 0.3:
            found[rng.randrange(length)] = rng.choice([-radius, radius])
            return found
        whole = [rng.gauss(0, 1) for _ in range(length)]
        if rng.random() < 0.3:
            whole = [math.copysign(1, x) for x in whole]
        size = sum(map(abs, whole)) if ball == "l1" else math.hypot(*whole)
        return [int(x * radius / size) for x in whole]

    return drawn


def column(name, lower, upper, centre, square_centre=0):
    ends = {"lower": str(lower), "upper": str(upper), "centre": str(centre)}
    return {"name": name} | ends | {"square_centre": str(square_centre)}


CROSS = {
    "kind": "cross",
    "rows": 3,
    "complete": {"name": "c", "one": "4"},
    "columns": [column("a", -5, 5, 0, 11), column("b", -3, 3, 0, 5)],
    "pairs": [{"name": n, "first": i, "second": j} for n, i, j in (("aa", 0, 0), ("ab", 0, 1), ("bb", 1, 1))],
}
KINDS = {
    "units": Kind({"kind": "units", "name": "u", "one": "6"}, lambda rng: 0, lambda s, rows: {"u": 6}),
    "rows": Kind({"kind": "rows", "name": "n", "one": "6", "rows": 3}, lambda rng: 0, added_rows),
    "values": Kind(
        {"kind": "values", "name": "n", "one": "6", "rows": 3, "column": "x"}, value(0, 1), added_values
    ),
    "row_sums": Kind(SUM | RANGE, value(-7, 9), added_row_sums),
    "nulls": Kind(SUM | RANGE | {"nulls": NULLS}, value(-7, 9), added_row_sums),
    "squares": Kind(
        SUM | {"lower": "-9", "upper": "9", "centre": "0", "nulls": NULLS, "squares": SQUARES},
        value(-9, 9),
        added_row_sums,
    ),
    "fine squares": Kind(
        SUM | RANGE | {"squares": {"name": "q", "bits": 0, "centre": "23"}}, value(-7, 9), added_row_sums
    ),
    "unit_sum": Kind(
        {"kind": "unit_sum", "name": "t", "lower": "3", "upper": "9", "centre": "7", "missing": True},
        value(-3, 9, 0.6),
        added_unit_sum,
    ),
    "cross": Kind(CROSS, lambda rng: (value(-5, 5, 0.1)(rng), value(-3, 3, 0.1)(rng)), added_cross),
    "weighted": Kind(
        {
            "kind": "weighted",
            "name": "w",
            "rows": 3,
            "weight": "8",
            "values": {"name": "wx", "bits": 1} | RANGE | {"lower": "-8"},
        },
        lambda rng: (rng.choice([0, 8, rng.randint(0, 8)]), value(-8, 9)(rng)),
        added_weighted,
    ),
    "bins": Kind(
        {"kind": "bins", "names": ["i", "j", "k"], "rows": 3, "one": "4", "weight": "2"},
        lambda rng: (rng.choice([None, 0, 0, 1, 2]), rng.choice([4, rng.randint(0, 4)])),
        added_bins,
    ),
    "nodes": Kind(
        {"kind": "nodes", "name": "t", "rows": 3, "one": "4", "levels": 3}, value(0, 7), added_nodes
    ),
    **{
        f"{ball} ball{'' if rows else ' of units'}": Kind(
            {"kind": "vector", "name": "v", "length": 4, "radius": "60", "ball": ball, "rows": rows},
            vector(4, 60, ball),
            added_vector,
        )
        for ball in ("l1", "l2", "linf")
        for rows in (3, None)
    },
}
# What a bound is above the largest that rows reach: where numbers cannot be largest together, or are cut.
LOOSE = {("cross", "l1"): 0.7, ("weighted", "l1"): 0.88, ("weighted", "l2"): 0.8, ("squares", "l2"): 0.85,
         ("squares", "l1"): 0.9}  # fmt: skip


def distances(kind, rng, scales, alike):
    """Sums of distances and of squares of what a unit with random rows adds; rows are alike or not."""
    rows = [kind.row(rng) for _ in range(rng.choice([1, 2, 3, 3, 3, 6, 7]))]
    if alike:
        rows = [rows[0]] * len(rows)
    added = kind.add(kind.description, rows)
    ratios = [(x if isinstance(x, str) else x[0], Fraction(n)) for x, n in added.items()]
    for name, n in ratios:
        box = dict(boxes(kind.description))[name] * (kind.description.get("rows") or 1)
        assert abs(n) <= box, (name, n, box)
    parts = [abs(n) / scales[name] for name, n in ratios]
    return sum(parts, Fraction(0)), sum((x * x for x in parts), Fraction(0))


@pytest.mark.parametrize("name", KINDS)
def test_what_units_add_reaches_the_bounds_and_never_exceeds_them(name):
    kind, rng = KINDS[name], random.Random(name)
    sizes = dict(boxes(kind.description))
    nearest = [Fraction(0), Fraction(0)]
    for _ in range(8):
        scales = {n: size * Fraction(rng.randint(2, 9), 5) for n, size in sizes.items()}
        if name in ("bins", "nodes"):
            scales = dict.fromkeys(sizes, Fraction(rng.randint(2, 9)))
        limits, own = Bounding(1, None, None), shift(kind.description, scales)
        bounds = limits.laplace([own]).pure, limits.l2([own])
        for i in range(TRIES // 4):
            found = distances(kind, rng, scales, alike=i % 2 == 0)
            for which in (0, 1):
                assert found[which] <= bounds[which], (name, which)
                nearest[which] = max(nearest[which], found[which] / bounds[which])
    for which, norm in enumerate(("l1", "l2")):
        assert nearest[which] >= LOOSE.get((name, norm), 0.97), (name, norm, float(nearest[which]))


@pytest.mark.parametrize("seed", range(12))
def test_squares_of_one_row_by_all_values(seed):
    """L1 and L2 of a sum and squares, at every value that a row can have."""
    rng = random.Random(seed)
    half, bits = rng.randint(1, 60), rng.randint(0, 5)
    top = (half * half + (1 << bits >> 1)) >> bits
    squares = {"name": "q", "bits": bits, "centre": str(rng.randint(-1, top + 1))}
    s = read(SUM | {"lower": str(-half), "upper": str(half), "centre": "0", "squares": squares}, "statistic")
    for _ in range(40):
        scales = {"s": Fraction(rng.randint(1, 100)), "q": Fraction(rng.randint(1, 100), rng.randint(1, 9))}
        found = shift(s, scales)
        own = [added_row_sums(s, [x]) for x in range(-half, half + 1)]
        l1 = max(sum(abs(n) / scales[name] for name, n in one.items()) for one in own)
        l2 = max(sum((n / scales[name]) ** 2 for name, n in one.items()) for one in own)
        assert l1 <= found.l1 <= l1 + Fraction(1, 2) / scales["q"] * 2
        assert l2 <= found.l2


def test_the_largest_square_is_rounded_halves_up():
    squares = {"name": "q", "bits": 1, "centre": "1"}
    s = read(SUM | {"lower": "-3", "upper": "3", "centre": "0", "squares": squares}, "statistic")
    assert dict(boxes(s)) == {"s": 3, "q": 5 - 1}  # 9/2


@pytest.mark.parametrize("count", [3, 11])
def test_columns_are_farthest_where_each_is_0_or_at_an_end(count):
    """Exactly of few columns; of many, products of two count where one of them is 0, too."""
    columns = [column(f"c{i}", -3, 3, 0, 5 + i % 3) for i in range(count)]
    pairs = [{"name": f"q{i}", "first": i, "second": i} for i in range(count)]
    pairs += [{"name": f"p{i}", "first": 0, "second": i} for i in (1, 2)]
    cross = {"kind": "cross", "rows": 1, "complete": None, "columns": columns, "pairs": pairs}
    s = read(cross, "statistic")
    most = 0
    for ends in itertools.product((0, 9), repeat=count):
        squares = sum(x + (x - 5 - i % 3) ** 2 for i, x in enumerate(ends))
        most = max(most, squares + ends[0] * (ends[1] + ends[2]))
    found = shift(s, {name: Fraction(7) for name, _ in boxes(s)}).l2 * 49
    assert found == most if count == 3 else most <= found <= most + 2 * 81


@pytest.mark.parametrize("rank", ["0", "1/3", "1/2", "9/10", "1"])
def test_margins(rank):
    """Random counts by place, with one unit more: the margin moves by no more than the box, and reaches it."""
    s = read({"kind": "margin", "name": "m", "one": "2", "rows": 3, "rank": rank, "bits": 6}, "statistic")
    ((_, box),), q, rng = boxes(s), Fraction(rank), random.Random(rank)
    least, most = math.floor(q * 64), math.ceil(q * 64)

    def margin(counts):
        below, upto, whole = sum(counts[:2]), sum(counts[:4]), sum(counts)
        return min(least * whole - (below << 6), (upto << 6) - most * whole)

    nearest = 0
    for _ in range(TRIES):
        counts, more = [rng.randint(0, 20) for _ in range(6)], [0] * 6
        for _ in range(rng.choice([1, 3])):
            more[rng.choice([0, 5, rng.randrange(6)])] += 2
        moved = abs(margin([a + b for a, b in zip(counts, more, strict=True)]) - margin(counts))
        assert moved <= 3 * box
        nearest = max(nearest, moved)
    assert nearest >= 2 * box


@pytest.mark.parametrize("scale", [3, 1])  # with less noise, units are farthest in all of their groups
def test_rows_limited_in_all_groups(scale):
    """L1 and L2 by all ways to divide rows over groups; corners of Laplace noise are largest there, too."""
    unit = shift(read({"kind": "units", "name": "u", "one": "1"}, "statistic"), {"u": Fraction(scale)})
    row = shift(read({"kind": "rows", "name": "n", "one": "1", "rows": 9}, "statistic"), {"n": Fraction(4)})
    for most, groups in itertools.product(range(1, 6), range(1, 5)):
        limits = Bounding(min(groups, most), most, None)
        ways = [w for w in itertools.product(range(most + 1), repeat=limits.groups) if sum(w) <= most]
        l1 = max(sum(Fraction(bool(n), scale) + Fraction(n, 4) for n in way) for way in ways)
        l2 = max(sum(Fraction(bool(n), scale**2) + Fraction(n * n, 16) for n in way) for way in ways)
        assert limits.laplace([unit, row]).pure == l1
        assert limits.l2([unit, row]) == l2


def test_fewer_rows_than_in_all_groups_are_refused():
    known = read(part([ROWS], independent("laplace", rows=9), total_rows=3), "part")
    assert bounding(known).total_rows == 3
    with pytest.raises(CertificateError, match="fewer rows"):
        bounding(known | {"statistics": [known["statistics"][0] | {"rows": 2}]})


@pytest.mark.parametrize("columns", [4, _TRIED, _TRIED + 2])
def test_no_choice_of_columns_is_farther(columns):
    """Columns that gain less than they lose at their ends, and pairs of them; exact for few of them."""
    rng = random.Random(columns)
    described = [column(f"c{i}", -3, 3, 0, 8) for i in range(columns)]
    places = [(i, i) for i in range(columns)] + [(i, i + 1) for i in range(0, columns, 2)]
    pairs = [{"name": f"p{i}.{j}", "first": i, "second": j} for i, j in places]
    s = read(
        {"kind": "cross", "rows": 1, "complete": None, "columns": described, "pairs": pairs}, "statistic"
    )
    scales = {name: Fraction(rng.randint(3, 9)) for name, _ in boxes(s)}
    most = max(
        sum((Fraction(x) / scales[f"c{i}"]) ** 2 for i, x in enumerate(ends))
        + sum(((ends[i] * ends[j] - 8 * (i == j)) / scales[f"p{i}.{j}"]) ** 2 for i, j in places)
        for ends in itertools.product((0, 3), repeat=columns)
    )
    found = shift(s, scales).l2
    assert found == most if columns == 4 else most <= found
