"""K-norm noise: every vector is recomputed from its own words, at 500 bits; points of a body against a box.

Two empirical laws of n numbers of one law differ by d with probability at most 2 e exp(-d^2 n) (Wei and Dudley 2012):
below 1e-14 where d^2 n is 36. Seeds are fixed.
"""

from fractions import Fraction as F

import numpy as np
import pytest
from scipy import stats

from sfumato.noise import FixedWords, SeededWords
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.k_norm.sampling import Vectors, as_uniform
from tests.support import k_norm_reference as reference

SCALES = [
    (F(1), F(2, 3), F(7), F(1, 10), F(5), F(1), F(3)),
    (F(2) ** 30, F(10**9), F(2) ** 20, F(3), F(2) ** 30, F(2) ** 30, F(2) ** 25),
]


def name(cone):
    return str(cone.signed) + ("u" if cone.units else "")


def draw(kind, cone, scales, groups, words):
    given = scales[: cone.dimensions]
    if kind == "joint":
        return JointNoise(cone, given, groups).rounded(words)
    return SeparateNoise(cone, given).rounded(groups, words)


def slowly(kind, cone, scales, groups, words):
    given = scales[: cone.dimensions]
    compute = reference.joint if kind == "joint" else reference.separate
    return compute(cone.signed, cone.units, given, groups, words)


@pytest.mark.parametrize("scales", SCALES, ids=["small", "large"])
@pytest.mark.parametrize(
    "cone",
    [
        Cone(1),
        *(pytest.param(c, marks=pytest.mark.long) for c in (Cone(0), Cone(3), Cone(1, True), Cone(5, True))),
    ],
    ids=name,
)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_every_draw_is_the_rounded_real(kind, cone, scales):
    same_as_slowly(kind, cone, scales, (1, 2, 5, 150))


def same_as_slowly(kind, cone, scales, counts):
    for groups in counts:
        seed = f"{kind} {cone} {groups}"
        words, again = SeededWords(seed), SeededWords(seed)
        got = draw(kind, cone, scales, groups, words)
        assert got.dtype == np.int64 and got.shape == (cone.dimensions, groups)
        assert np.array_equal(got, slowly(kind, cone, scales, groups, again))
        # Both have taken as many words: the next ones agree.
        assert words.take(1) == again.take(1)


def _given(cone, groups, kind, seed):
    """The words of a call whose vectors are all accepted in the first round, as integers."""
    width = cone.dimensions if kind == "joint" else 2 * cone.signed + 1 + cone.units
    return SeededWords(seed).take(4 + width * groups).tolist()


@pytest.mark.parametrize("cone", [Cone(1), pytest.param(Cone(1, True), marks=pytest.mark.long)], ids=name)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_words_next_to_a_boundary(kind, cone, monkeypatch):
    """Each first word is moved to where the vector changes, and one and two further, to either side."""
    slow = 0
    settle = Vectors.settle

    def counted(self, uniform):
        nonlocal slow
        slow += 1
        return settle(self, uniform)

    monkeypatch.setattr(Vectors, "settle", counted)
    scales, changes = (F(50), F(40), F(30), F(20)), 0
    for seed in range(2):
        base = _given(cone, 1, kind, seed)

        def vector(words, compute=draw):
            return compute(kind, cone, scales, 1, FixedWords(words, then=SeededWords(1))).ravel().tolist()

        for place in range(4, len(base)):
            start, end = base[place], (base[place] + 2**59) % 2**64
            if vector([*base[:place], start, *base[place + 1 :]]) == vector(
                [*base[:place], end, *base[place + 1 :]]
            ):
                continue
            changes += 1
            low, high = 0, 2**59  # a change lies between start + low and start + high
            origin = vector(base)
            while high - low > 1:
                middle = (low + high) // 2
                words = [*base[:place], (start + middle) % 2**64, *base[place + 1 :]]
                low, high = (middle, high) if vector(words) == origin else (low, middle)
            before = slow
            for step in (-1, 0, 1, 2):
                words = [*base[:place], (start + low + step) % 2**64, *base[place + 1 :]]
                assert vector(words) == vector(words, slowly)
            assert slow > before
    assert changes >= 2


# The word of which the least and the largest are where floats know nothing: the side of n and v/R, and which number is the largest.
ENDS = [
    ("joint", Cone(1, True), 5),
    ("joint", Cone(2, True), 5),
    ("separate", Cone(1), 6),
    ("separate", Cone(2), 7),
]
WORDS = [0, 1, 2**30, 2**46, 2**48, 2**63 // 3, 2**64 // 3, 2**63 - 1, 2**63, 2**64 - 2**30, 2**64 - 1]
WORDS.append(2**64 // 3 + 1 + 2**63)


@pytest.mark.parametrize("kind, cone, place", ENDS, ids=str)
def test_words_where_floats_know_nothing(kind, cone, place):
    """Shares next to 0, and numbers chosen next to the edge of another: no word is refused, or taken for another."""
    base = SeededWords(3).take(4 + 12).tolist()
    for word in WORDS:
        words = [*base[:place], word, *base[place + 1 :]]
        fast, slow = (
            compute(kind, cone, (F(2) ** 30,) * 4, 1, FixedWords(words, then=SeededWords(1)))
            for compute in (draw, slowly)
        )
        assert np.array_equal(fast, slow)


def test_a_draw_in_the_middle_of_another_changes_neither(monkeypatch):
    """As by another thread, or by a handler of a signal."""
    cone = Cone(2, True)
    noise = SeparateNoise(cone, (F(10**6),) * cone.dimensions)
    outer, inner = (noise.rounded(300, SeededWords(seed)) for seed in (1, 2))
    honest, found, free = SeparateNoise._magnitudes, [], [True]

    def interrupted(self, words):
        magnitudes = honest(self, words)
        if free:
            free.pop()
            found.append(noise.rounded(300, SeededWords(2)))
        return magnitudes

    monkeypatch.setattr(SeparateNoise, "_magnitudes", interrupted)
    assert np.array_equal(noise.rounded(300, SeededWords(1)), outer)
    assert np.array_equal(found[0], inner)


# Points of one group's body for given sides, against points of a box that are in it by the body's own words.

THRESHOLD = 36


def places(label, dimensions, count):
    words = SeededWords(label).take(dimensions * count).view(np.int64).reshape(dimensions, count)
    return np.array(as_uniform(words))


def from_a_box(body, theta):
    """Points for which max(a, u + b) is at most θ, and the same less u at most 1 - θ."""
    points = places("box", body.dimensions, 1_000_000)
    counts = points[: 1 + body.units]
    counts += 2 * theta - 1
    counts /= 2
    n = points[int(body.units)]
    a = (np.abs(points[body.units :]).max(axis=0) + n) / 2
    u = n
    if body.units:
        u = points[0]
        a = np.maximum(a, u + a - n)
    return points[:, (a <= theta) & (a - u <= 1 - theta)]


def drawn(body, theta):
    numbers, room, _ = body.floats(theta, 1 - theta, list(places("draw", body.dimensions, 120_000)))
    found = np.array(numbers)
    return found if room is None else found[:, room > 0]


def unlike(body, theta):
    """Whether numbers, their sizes, or sums of two are of another law than in the body."""
    one, other = drawn(body, theta), from_a_box(body, theta)
    n = min(one.shape[1], other.shape[1])
    assert n > 25_000
    views = [lambda x, i=i: x[i] for i in range(body.dimensions)]
    views += [lambda x, i=i: x[i - 1] + x[i] for i in range(1, body.dimensions)]
    views += [lambda x, i=i: x[i - 1] - np.abs(x[i]) for i in range(1, body.dimensions)]
    distance = max(stats.ks_2samp(view(one)[:n], view(other)[:n], method="asymp").statistic for view in views)
    return distance**2 * n > THRESHOLD


@pytest.mark.parametrize(
    "body, theta",
    [
        (Cone(1, True), 0.8),
        *(
            pytest.param(*given, marks=pytest.mark.long)
            for given in ((Cone(3), 0.5), (Cone(0, True), 0.97), (Cone(3, True), 0.5))
        ),
    ],
    ids=str,
)
def test_points_are_uniform_in_the_body(body, theta):
    assert not unlike(body, theta)
