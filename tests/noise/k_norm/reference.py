"""The contract of a draw of K-norm noise, computed slowly: 500 bits of every number, one vector at a time.

A call takes 4 words as a key. The uniform number of an address is the words of KeyedWords(key, repr(address)), after
its first word where it was drawn in bulk. First words come in blocks of 2^13 vectors, or as many as are missing: for
each number of a vector an array. A word read as signed w is the place (w + 2^63) / 2^64 of U.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np

from sfumato.noise import KeyedWords

digits = 150
_words = 9


class Uniforms:
    def __init__(self, words):
        self.words = words
        self.key = words.take(4).astype("<u8").tobytes()

    def at(self, *address, first=None):
        more = KeyedWords(self.key, repr(address).encode()).take(_words).tolist()
        all_words = more if first is None else [first, *more]
        value = mpmath.mpf(0)
        for i, word in enumerate(all_words, 1):
            value += mpmath.mpf(word) * mpmath.mpf(2) ** (-64 * i)
        return value


def gamma(shape, u, *address):
    d = mpmath.mpf(3 * shape - 1) / 3
    attempt = 0
    while True:
        magnitude, sign, chance = (u.at(*address, attempt, i) for i in range(3))
        x = -mpmath.log(magnitude) * (1 if sign > 0.5 else -1)
        y = 1 + x / mpmath.sqrt(9 * d)
        if y > 0 and mpmath.log(chance) < 3 * d * mpmath.log(y) - d * y**3 + d - 0.5 + abs(x):
            return d * y**3
        attempt += 1


def inside(a, b, x, y):
    """Whether (x, y) is in aM - bM, M the hull of y = 2x² - 1: which ends of x = x1 - x2 make y largest and least."""
    one, other = max(abs(x) - b, 0), max(abs(x) - a, 0)
    least = 2 * one**2 / a - a - b if one else -a - b
    most = a + b - 2 * other**2 / b if other else a + b
    return abs(x) <= a + b and least <= y <= most


def boole(f, ends):
    """Integrate what is a polynomial of at most degree 5 between two ends: Boole's rule."""
    total = mpmath.mpf(0)
    for low, high in pairwise(ends):
        values = (w * f(low + (high - low) * i / 4) for i, w in enumerate((7, 32, 12, 32, 7)))
        total += (high - low) * sum(values) / 90
    return total


def volume(signed, units, theta, squares=False):
    """One group's volume by quadrature of what its sampler says; not by the polynomial of the package."""
    tau, power = 1 - theta, signed + 1
    if squares:

        def area(n, lam=theta, mu=tau):
            a, b = min(lam, n + mu), min(mu, lam - n)
            return (a + b) ** 2 - (a**2 + b**2) / 3

        def body(u):
            lam, mu = min(theta, tau + u), min(tau, theta - u)
            return boole(lambda n: area(n, lam, mu), [-mu, lam - mu, lam])

        return boole(body if units else area, [-tau, theta - tau, theta])
    if not units:
        return (2 - theta**power - tau**power) / power

    def inner(n):
        v, size = min(2 * theta - n, 2 * tau + n), abs(n)
        if signed == 0:
            return 1 - size
        return (
            size**signed * (1 - size) + (v**signed - size**signed) - signed * (v**power - size**power) / power
        )

    return mpmath.quad(inner, [-tau, *sorted([mpmath.mpf(0), theta - tau]), theta])


def theta(signed, units, groups, u, squares):
    if signed + units == 0:
        return u.at(1)
    c, h, quadratic = family(signed, units, squares)
    attempt = 0
    while 22 * h**2 > 28 * (groups + mpmath.mpf(3) / 4):
        x = u.at(1, attempt, 0) - 0.5
        ratio = sum(a * x ** (2 * j) for j, a in enumerate(c)) / c[0]
        if u.at(1, attempt, 2) < ratio**groups:
            return x + 0.5
        attempt += 1
    while True:
        one, other = (gamma(groups + 1, u, 1, attempt, i) for i in range(2))
        x = h * (one - other) / (one + other)
        if abs(x) < 0.5:
            ratio = sum(a * x ** (2 * j) for j, a in enumerate(c)) / c[0] / (1 - x**2 / h**2)
            if quadratic or u.at(1, attempt, 2) < ratio**groups:
                return x + 0.5
        attempt += 1


@cache
def family(signed, units, squares):
    """V = c0 + c1 x^2 + c2 x^4 ..., and the h of the Beta proposals, which is part of the contract."""
    count = (signed + units) // 2 + 2
    xs = [mpmath.mpf(i) / (2 * count) for i in range(count)]
    c = mpmath.lu_solve(
        mpmath.matrix([[x ** (2 * j) for j in range(count)] for x in xs]),
        mpmath.matrix([volume(signed, units, mpmath.mpf(1) / 2 + x, squares) for x in xs]),
    )
    positive = mpmath.mpf(0)
    for j in range(count - 1, 1, -1):
        positive = max(positive + (c[j] if abs(c[j]) > 1e-40 else 0), 0) / 4
    h = mpmath.sqrt(-c[0] / (c[1] + positive))
    quadratic = all(abs(c[j]) < 1e-40 for j in range(2, count))
    return list(c), h, quadratic


def vectors(width: int, count: int, u: Uniforms, make: Callable[[list], list | None]) -> list[list[int]]:
    found, number = [], 0
    while len(found) < count:
        size = min(2**13, count - len(found))
        first = u.words.take(width * size).reshape(width, size)
        for i in range(size):
            place = [(int(w) + 2**63) % 2**64 for w in first[:, i]]
            vector = make([u.at(2, number, j, first=w) for j, w in enumerate(place)])
            number += 1
            if vector is not None:
                found.append([int(mpmath.floor(x + 0.5)) for x in vector])
    return np.array(found, np.int64).T


def within(signed, units, lam, mu, uniform):
    """A uniform point of one group's λC - μC, or None where it is drawn again."""

    def edge(power, place):
        left, right = (lam + mu) ** power - mu**power, (lam + mu) ** power - lam**power
        y = place * (left + right)
        if y < left:
            v = mpmath.root(mu**power + y, power)
            return v - 2 * mu, v
        v = mpmath.root(lam**power + (left + right - y), power)
        return 2 * lam - v, v

    first, v = edge(1 + signed + units, uniform[0])
    if not units:
        return [first, *((2 * t - 1) * v for t in uniform[1:])]
    # What is left of λ and μ for the others; v is now both of that together.
    left, right = min(lam, mu + first), min(mu, lam - first)
    if not signed:
        return [first, uniform[1] * v - right]
    v *= mpmath.root(abs(2 * uniform[1] - 1), signed + 1)
    if v < (right if uniform[1] < 0.5 else left):
        return None
    n = v - 2 * right if uniform[1] < 0.5 else 2 * left - v
    return [first, n, *((2 * t - 1) * v for t in uniform[2:])]


def joint(signed, units, scales, groups, words, squares=False):
    with mpmath.workdps(digits):
        u = Uniforms(words)
        r = gamma(groups * (1 + signed + units) + 2, u, 0)
        share = theta(signed, units, groups, u, squares)
        lam, mu = share * r, (1 - share) * r

        def make(uniform):
            numbers = within(signed, units, lam, mu, uniform)
            if numbers is None:
                return None
            n, left, right = numbers[units], lam, mu
            if units:
                left, right = min(lam, mu + numbers[0]), min(mu, lam - numbers[0])
            if squares and not inside(min(left, n + right), min(right, left - n), *numbers[-2:]):
                return None
            return [
                x * Fraction(s).numerator / Fraction(s).denominator
                for x, s in zip(numbers, scales, strict=True)
            ]

        return vectors(1 + signed + units, groups, u, make)


def exponentials(signed, units, uniform):
    """A vector of density exp(-(a + b)) up to a factor."""
    power = signed + 1
    steps = [(-mpmath.log(abs(2 * t - 1)), 1 if t > 0.5 else -1) for t in uniform]
    size = sum(e for e, _ in steps[:power])
    numbers = [size * steps[0][1]]
    if signed:
        y = uniform[power] * power
        face = int(mpmath.floor(y))
        spread = [(2 * t - 1) * size for t in (y - face, *uniform[power + 1 : 2 * power - 1])]
        numbers += spread
        numbers[0], numbers[face] = numbers[face], numbers[0]
    if units:
        numbers.insert(0, numbers[0] + steps[-1][0] * steps[-1][1])
    return numbers


def separate(signed, units, scales, count, words):
    with mpmath.workdps(digits):
        u = Uniforms(words)

        def make(uniform):
            return [
                x * Fraction(s).numerator / Fraction(s).denominator
                for x, s in zip(exponentials(signed, units, uniform), scales, strict=True)
            ]

        return vectors(2 * signed + 1 + units, count, u, make)


def separate_parabolas(units, scales, count, words):
    with mpmath.workdps(digits):
        u = Uniforms(words)

        def make(uniform):
            size = -sum(mpmath.log(abs(2 * t - 1)) for t in uniform[: 4 + units])
            point = [2 * t - 1 for t in uniform[4 + units :]]
            a, b = (1 + point[0]) / 2, (1 - point[0]) / 2
            if units:
                point[1] = uniform[6] - b
                a, b = min(a, point[1] + b), min(b, a - point[1])
            if not inside(a, b, *point[-2:]):
                return None
            return [
                z * size * Fraction(s).numerator / Fraction(s).denominator
                for z, s in zip(point, scales, strict=True)
            ]

        return vectors(7 + 2 * units, count, u, make)


def tilted_volume(signed, units, tilt, lam, mu):
    """The integral of exp(-tilt (a + b)) over λC - μC, up to a factor, over the size a + b without units.

    With units, u - n is any number that leaves room: weighed by the integral of its own exp.
    """
    m, small, large, whole = signed, *sorted([lam, mu]), lam + mu

    def room(left, right):
        return (2 - mpmath.exp(-tilt * left) - mpmath.exp(-tilt * right)) / tilt if units else mpmath.mpf(1)

    def rooms(start, end, size):
        """Of a from start to end, b = size - a."""
        if not units:
            return end - start

        def part(one, other):
            return (mpmath.exp(-tilt * one) - mpmath.exp(-tilt * other)) / tilt

        falls = part(lam - end, lam - start) + part(mu - size + start, mu - size + end)
        return (2 * (end - start) - falls) / tilt

    def inside(size):
        start, end = max(size - mu, 0), min(size, lam)
        return 2 * m * size ** (m - 1) * rooms(start, end, size) if m else 0

    def edges(size):
        found = room(lam - size, mu) if size <= lam else 0
        return size**m * (found + (room(lam, mu - size) if size <= mu else 0))

    total = mpmath.mpf(0)
    for low, high in ((0, small), (small, large), (large, whole)):
        if low < high:
            middle = (low + high) / 2
            on_edge = edges(middle) != 0

            def f(size, on_edge=on_edge):
                # At the ends of a piece: what it is within.
                return mpmath.exp(-tilt * size) * (inside(size) + (edges(size) if on_edge else 0))

            total += mpmath.quad(f, [low, high])
    return total


def limited(signed, units, scales, groups, most, shared, hat, uniform_in_body, words):
    """`hat` and `uniform_in_body` are those of the package, and part of the contract."""
    with mpmath.workdps(digits):
        u = Uniforms(words)
        w = mpmath.mpf(shared.numerator) / shared.denominator
        tilt = (1 - w) / most
        top, start, end, left, right = (
            mpmath.mpf(x.numerator) / x.denominator
            for x in (hat.top, hat.start, hat.end, hat.left, hat.right)
        )
        attempt = 0
        while True:
            piece, place, share, chance = (u.at(0, attempt, i) for i in range(4))
            attempt += 1
            along = piece * (1 / left + end - start + 1 / right)
            if along < 1 / left:
                r, hat_height = start + mpmath.log(place) / left, mpmath.log(place)
            elif along < 1 / left + end - start:
                r, hat_height = start + (end - start) * place, 0
            else:
                r, hat_height = end - mpmath.log(place) / right, mpmath.log(place)
            if r <= 0:
                continue
            lam, mu = share * r, (1 - share) * r
            with mpmath.workdps(30):  # the chance that this decides wrongly is next to none
                volume = tilted_volume(signed, units, tilt, lam, mu)
                height = groups * mpmath.log(volume) + mpmath.log(r) - w * r
                taken = mpmath.log(chance) < height - top - hat_height
            if taken:
                break

        def size_of(numbers):
            rest = numbers[units:]
            found = max(map(abs, rest))
            return found + abs(numbers[0] - rest[0]) if units else found

        def scaled(numbers, by):
            return [
                x * by * Fraction(s).numerator / Fraction(s).denominator
                for x, s in zip(numbers, scales, strict=True)
            ]

        def from_within(uniform):
            numbers = within(signed, units, lam, mu, uniform[:-1])
            if numbers is None:
                return None
            if -mpmath.log(abs(2 * uniform[-1] - 1)) < tilt * size_of(numbers):
                return None
            return scaled(numbers, 1)

        def from_anywhere(uniform):
            numbers = exponentials(signed, units, uniform)
            size = size_of(numbers)
            if (size + numbers[0]) / 2 > tilt * lam or (size - numbers[0]) / 2 > tilt * mu:
                return None
            return scaled(numbers, 1 / tilt)

        if uniform_in_body:
            return vectors(2 + signed + units, groups, u, from_within)
        return vectors(2 * signed + 1 + units, groups, u, from_anywhere)


def centred(scale, groups, total, words):
    with mpmath.workdps(digits):
        u = Uniforms(words)
        t = mpmath.mpf(total.numerator) / total.denominator
        x = -mpmath.log(u.at(1, 0)) * (1 if u.at(1, 1) > 0.5 else -1) / (2 * t)
        y = gamma(groups + 1, u, 0) / (2 * (1 - t))
        factor = mpmath.mpf(scale.numerator) / scale.denominator
        return vectors(1, groups, u, lambda uniform: [(x + y * (2 * uniform[0] - 1)) * factor])


def stretched(signed, units, scales, favoured, part, count, words):
    """Of a body that is stretched: which of M + 1 exponential numbers go beyond the favoured ones is drawn first."""
    m, p = signed + 1, len(favoured)
    with mpmath.workdps(digits):
        u, v = Uniforms(words), 1 - mpmath.mpf(part.numerator) / part.denominator
        chances = [
            mpmath.binomial(m - p, j) * mpmath.factorial(m - 1 - j) * mpmath.factorial(j) / v ** (j + 1)
            for j in range(m - p + 1)
        ]

        def make(uniform):
            steps = [(-mpmath.log(abs(2 * t - 1)), 1 if t > 0.5 else -1) for t in uniform]
            j, place = 0, uniform[m + 1] * sum(chances)
            while place >= chances[j]:
                place -= chances[j]
                j += 1
            y = sum(e for e, _ in steps[: m - j])
            t = y + sum(e for e, _ in steps[m - j : m + 1]) / v
            core, choices = [y * steps[0][1]], uniform[m + 2 : m + 1 + p]
            if p > 1:
                face = int(mpmath.floor(choices[0] * p))
                core += [(2 * a - 1) * y for a in (choices[0] * p - face, *choices[1:])]
                core[0], core[face] = core[face], core[0]
            others = [(2 * a - 1) * t for a in uniform[m + 1 + p : 2 * m + 1]]
            numbers = [core.pop(0) if i in favoured else others.pop(0) for i in range(m)]
            if units:
                numbers.insert(0, numbers[0] + steps[-1][0] * steps[-1][1])
            return [
                x * Fraction(s).numerator / Fraction(s).denominator
                for x, s in zip(numbers, scales, strict=True)
            ]

        return vectors(2 * m + 1 + units, count, u, make)
