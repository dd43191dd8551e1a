"""The contract of a draw of K-norm noise, computed slowly: 500 bits of every number, one vector at a time.

A call takes 4 words as a key. The uniform number of an address is the words of KeyedWords(key, repr(address)), after
its first word where it was drawn in bulk. First words come in blocks of 2^13 vectors, or as many as are missing: for
each number of a vector an array. A word read as signed w is the place (w + 2^63) / 2^64 of U.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

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


def volume(signed, units, theta):
    """One group's volume by quadrature of what its sampler says; not by the polynomial of the package."""
    tau, power = 1 - theta, signed + 1
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


def theta(signed, units, groups, u):
    if signed + units == 0:
        return u.at(1)
    c, h, quadratic = family(signed, units)
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
def family(signed, units):
    """V = c0 + c1 x^2 + c2 x^4 ..., and the h of the Beta proposals, which is part of the contract."""
    count = (signed + units) // 2 + 2
    xs = [mpmath.mpf(i) / (2 * count) for i in range(count)]
    c = mpmath.lu_solve(
        mpmath.matrix([[x ** (2 * j) for j in range(count)] for x in xs]),
        mpmath.matrix([volume(signed, units, mpmath.mpf(1) / 2 + x) for x in xs]),
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


def joint(signed, units, scales, groups, words):
    with mpmath.workdps(digits):
        u = Uniforms(words)
        r = gamma(groups * (1 + signed + units) + 2, u, 0)
        share = theta(signed, units, groups, u)
        lam, mu = share * r, (1 - share) * r

        def make(uniform):
            numbers = within(signed, units, lam, mu, uniform)
            if numbers is None:
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
