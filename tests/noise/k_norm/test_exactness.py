"""Every vector is recomputed from its own words, at 500 bits, by `reference`."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.noise import FixedWords, SeededWords
from sfumato.noise.k_norm.cone_noise import JointNoise, SeparateNoise
from sfumato.noise.k_norm.cones import Cone
from sfumato.noise.k_norm.sampling import Vectors

from . import reference

CONES = [Cone(0), Cone(1), Cone(2), Cone(3), Cone(0, True), Cone(1, True), Cone(2, True)]
MANY = [Cone(5, True), Cone(6)]  # numbers
SCALES = [
    (F(1), F(2, 3), F(7), F(1, 10), F(5), F(1), F(3)),
    (F(2) ** 30, F(10**9), F(2) ** 20, F(3), F(2) ** 30, F(2) ** 30, F(2) ** 25),
]
# Three of them in the first tier.
FIRST = [
    c if c in CONES[:2] or c == Cone(1, True) else pytest.param(c, marks=pytest.mark.long) for c in CONES
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
@pytest.mark.parametrize("cone", [*FIRST, *(pytest.param(c, marks=pytest.mark.long) for c in MANY)], ids=name)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_every_draw_is_the_rounded_real(kind, cone, scales):
    same_as_slowly(kind, cone, scales, (1, 2, 5, 150))


@pytest.mark.long
@pytest.mark.parametrize("cone", [Cone(12, True), Cone(40)], ids=name)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_every_draw_of_very_many_numbers_is_the_rounded_real(kind, cone):
    same_as_slowly(kind, cone, SCALES[0] * 6, (1, 3))


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


@pytest.mark.parametrize(
    "cone",
    [
        Cone(0),
        Cone(1),
        *(pytest.param(c, marks=pytest.mark.long) for c in (Cone(2), Cone(1, True))),
    ],
    ids=name,
)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_words_next_to_boundaries(kind, cone, monkeypatch):
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


@pytest.mark.parametrize("kind, cone, place", ENDS, ids=str)
def test_words_where_floats_know_nothing(kind, cone, place):
    """Shares next to 0, and numbers chosen next to the edge of another: no word is refused, or taken for another."""
    base = SeededWords(3).take(4 + 12).tolist()
    for word in (
        0,
        1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**30,
        2**64 - 2**30,
        2**46,
        2**48,
        2**64 // 3,
        2**64 // 3 + 1 - 2**63,
        2**63 // 3,
    ):
        words = [*base[:place], word % 2**64, *base[place + 1 :]]
        fast, slow = (
            compute(kind, cone, (F(2) ** 30,) * 4, 1, FixedWords(words, then=SeededWords(1)))
            for compute in (draw, slowly)
        )
        assert np.array_equal(fast, slow)


@pytest.mark.parametrize("cone", CONES, ids=name)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_the_path_does_not_matter(kind, cone, monkeypatch):
    fast = draw(kind, cone, SCALES[0], 400, SeededWords(5))
    rounding = Vectors._round_into
    monkeypatch.setattr(Vectors, "_round_into", lambda *args: rounding(*args) | True)
    assert np.array_equal(draw(kind, cone, SCALES[0], 400, SeededWords(5)), fast)


@pytest.mark.parametrize("kind, groups", [("joint", 8191), ("joint", 8193), ("separate", 20_000)])
def test_blocks_do_not_matter(kind, groups):
    """Nor do their ends: vectors at them are the same by either path, and none is left out."""
    found = draw(kind, Cone(1, True), (F(2) ** 20,) * 3, groups, SeededWords(6))
    assert (found != 0).all()
    assert len(set(map(tuple, found.T.tolist()))) == groups


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


def test_the_check_sees_a_wrong_last_bit(monkeypatch):
    """Numbers in floats that are off by 2^-40 of L are found where the scale makes that a step."""
    floats = Cone.floats

    def wrong(self, *args):
        numbers, room, known = floats(self, *args)
        return [x + 2.0**-40 for x in numbers], room, known

    monkeypatch.setattr(Cone, "floats", wrong)
    cone, scales = Cone(1), (F(2) ** 36, F(2) ** 36)
    got = draw("joint", cone, scales, 100, SeededWords(7))
    assert not np.array_equal(got, slowly("joint", cone, scales, 100, SeededWords(7)))


@pytest.mark.parametrize("cone", FIRST, ids=name)
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_floats_are_within_their_margin(kind, cone):
    """In 400 random vectors of joint noise with θ anywhere, and of separate noise: errors over bounds are below 1.

    So they are over closer bounds, which are hardly above the others.
    """
    from sfumato.noise.k_norm.cone_noise import JointVectors
    from sfumato.noise.k_norm.sampling import Streams, radii

    worst = worst_of_closer = 0.0
    for groups in (1, 40):
        for seed in range(10):
            streams = Streams(SeededWords(seed))
            scales = (F(1),) * cone.dimensions
            if kind == "separate":
                vectors = SeparateNoise(cone, scales)
            else:
                shared = radii(cone.volume, cone.dimensions, groups, streams)
                vectors = JointVectors(cone, scales, shared)
            words = SeededWords(f"{seed} words").take(20 * vectors.width).view(np.int64).reshape(-1, 20)
            found = vectors.approximate(words)
            with np.errstate(invalid="ignore", divide="ignore"):
                closer = vectors.closely(found.numbers)
            for i in range(20):
                if found.known is not None and not found.known[i]:
                    continue
                own = [streams.at(2, i, j, first=int(w) % 2**64 ^ 2**63) for j, w in enumerate(words[:, i])]
                exact = vectors.enclose([u.enclose(256) for u in own])
                if exact is None:
                    continue
                each = zip(found.numbers, found.margins, closer, exact.numbers, strict=True)
                for x, margin, own, truth in each:
                    if np.isnan(x[i]):
                        continue
                    error = abs(F(x[i]) - F(*truth.low.as_integer_ratio()))
                    worst = max(worst, float(error / margin))
                    worst_of_closer = max(worst_of_closer, float(error / F(own[i])))
                    assert (
                        own[i] <= margin * 1.15
                    )  # of which 1.13 are in what bounds the errors of all magnitudes
                if exact.room is not None:
                    room = F(*exact.room.low.as_integer_ratio()) / F(vectors.shared.floats[2])
                    worst = max(worst, float(abs(F(found.room[i]) - room) / F(found.room_margin)))
    assert 0.001 < worst < 1 and 0.001 < worst_of_closer < 1
