"""The falsifier's search for two inputs whose outputs lie further apart than a stability map allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, islice
from typing import Any

from sfumato.audit.falsifier.domain_members import Draw, is_finite
from sfumato.audit.falsifier.number_pairs import Pairs, State
from sfumato.audit.falsifier.record_pairs import make_pairs
from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import positive_int
from sfumato.framework.core import Transformation, distance_in
from sfumato.framework.domains import Row
from sfumato.framework.metrics import Distance


def exact_outputs(function: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Any] | None:
    """Return the outputs of a falsified function in exact rationals; None where it needs floats.

    First floats are replaced; where floats still come out, as of 1 / 3, whole numbers too.

    >>> exact_outputs(sum, [[0.5, 0.25], [0.5, float("inf")]]) is None, exact_outputs(sum, [[0.5, 0.25]])
    (True, [_Exact(3, 4)])
    """
    for kinds in ((float, Fraction), (float, Fraction, int)):
        try:
            outputs = [function(_to_exact(value, kinds)) for value in inputs]
        except Exception:  # the function wants numbers of its own kind
            continue
        if not any(map(_has_float, outputs)):
            return outputs
    return None


class _Exact(Fraction):
    """A Fraction for falsification that takes a float as the exact number that it is."""


def _accept_floats(name: str) -> Any:
    def operation(self: Fraction, *others: Any) -> Any:
        found = getattr(Fraction, name)(
            self, *(Fraction(o) if isinstance(o, float) and is_finite(o) else o for o in others)
        )
        return _Exact(found) if isinstance(found, Fraction) else found

    return operation


for _name in ("add", "sub", "mul", "truediv", "pow", "mod", "radd", "rsub", "rmul", "rtruediv", "rmod"):
    setattr(_Exact, f"__{_name}__", _accept_floats(f"__{_name}__"))
for _name in ("abs", "neg", "pos"):
    setattr(_Exact, f"__{_name}__", _accept_floats(f"__{_name}__"))


def _to_exact(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Replace numbers in a falsifier's input by Fractions; NaN and infinities stay."""
    if isinstance(value, kinds) and not isinstance(value, bool):
        return _Exact(value) if is_finite(value) else value
    if isinstance(value, Mapping):
        return {key: _to_exact(v, kinds) for key, v in value.items()}
    if isinstance(value, Row):
        return value._replace(values=_to_exact(value.values, kinds))
    if isinstance(value, (list, tuple)):
        return type(value)(_to_exact(v, kinds) for v in value)
    return value


def _has_float(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, float) or (isinstance(value, (list, tuple)) and any(map(_has_float, value)))


KEPT = 4  # pairs that are improved side by side
GIVEN_PAIRS = 500  # of given members, at most so many pairs are tried as they are
# Of 4,000 evaluations inputs may be of 2^16 records, which costs as much as they do.
LONGEST_SHARE = 32
SHOWN = 160


@dataclass(frozen=True, repr=False)
class Falsification(TextCard):
    """The result of a falsifier's search for a counterexample; `print` it.

    `falsify` returns it.

    Args:
        name: the name of the transformation.
        violated: whether the claim is violated.
        failure: what is wrong: "distance" (outputs are too far apart), "output" (an output is outside the
            output domain), "error" (the function raised), or None.
        inputs: the best pair found; for "output" and "error" the first of the two causes the failure.
        outputs: the function's outputs for them.
        d_in: the distance at which the claim is judged: the requested one; or the one between the inputs, if
            that is smaller and the claim for it is violated.
        distance: the distance between the outputs, rounded down if it is not rational.
        bound: the claim of the map for `d_in`.
        ratio: distance / bound; infinite if only the bound is 0.
        exact_ratio: the ratio with floats replaced by exact rationals; None if the function cannot compute
            with them.
        evaluations: the number of pairs judged.
        seed: the seed of the search.
    """

    name: str
    violated: bool
    failure: str | None
    inputs: tuple[Any, Any]
    outputs: tuple[Any, Any]
    d_in: Fraction
    distance: Distance
    bound: Distance
    ratio: Distance
    exact_ratio: Distance | None = None
    evaluations: int = 0
    seed: int = 0

    @property
    def artefact(self) -> bool:
        """Whether only floats violate the claim, while exact numbers satisfy it."""
        return self.failure == "distance" and self.exact_ratio is not None and self.exact_ratio <= 1

    def __str__(self) -> str:
        lines = [self._verdict()]
        for label, value in zip(("one input", "the other"), self.inputs, strict=True):
            lines.append(f"  {label}: {_short(value)}")
        for label, value in zip(("output", "the other"), self.outputs, strict=True):
            lines.append(f"  {label}: {_short(value)}")
        if self.failure in (None, "distance"):
            lines.append(f"  in exact rationals: {self._exactly()}")
        lines.append(f"  {self.evaluations} pairs tested, seed {self.seed}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.failure == "output":
            return f"{self.name}: BROKEN: an output is not in the output domain"
        if self.failure == "error":
            return f"{self.name}: BROKEN: the function raises for a member of its domain"
        state = "BROKEN" if self.violated else "not broken"
        return (
            f"{self.name}: {state}: at d_in = {_number(self.d_in)} outputs lie {_number(self.distance)} "
            f"apart, the map claims at most {_number(self.bound)} (ratio {_number(self.ratio)})"
        )

    def _exactly(self) -> str:
        if self.exact_ratio is None:
            return "not replayed, as the function computes with floats"
        verdict = "; the claim is broken only in floats" if self.artefact else ""
        return f"ratio {_number(self.exact_ratio)}{verdict}"

    @property
    def _rank(self) -> tuple[int, Distance]:
        kind = {None: 0, "output": 2, "error": 2, "distance": 1 if self.artefact else 3}[self.failure]
        return kind, self.ratio


def falsify(
    transformation: Transformation,
    d_in: object,
    *,
    members: Sequence[Any] = (),
    evaluations: int = 4000,
    seed: int = 0,
) -> Falsification:
    """Search for two inputs, at most `d_in` apart, that falsify a transformation's stability map.

    The first half of the evaluations tries members of the domain at which code often fails (bounds, zeros,
    powers of two, NULL, NaN, nothing, one record, identical records), in all orders. The second half is
    coordinate ascent: it changes the best pairs in one place at a time. The search first checks in exact
    rationals that each pair is in the domain and within `d_in`. It then judges the pair by the claim of the
    map at `d_in` and at the actual distance between the two. Finding no counterexample is not a proof.

    Args:
        transformation: the transformation with its claim.
        d_in: the largest distance between inputs, in the input metric's unit.
        members: members of the input domain to start from, for domains that do not say what their values look
            like.
        evaluations: the number of pairs to try; once the claim is violated, at most a quarter of them make
            the violation clearer.
        seed: the same seed gives the same search.
    Returns:
        The best pair: the worst violation, or else the pair that comes closest to the map.
    Raises:
        ParameterError: a parameter is not valid; the error names it.
        QueryError: no pair can be made in this domain and metric.

    >>> from sfumato.framework import Transformation
    >>> from fractions import Fraction
    >>> from sfumato.framework import AbsoluteDistance, AtomDomain, Linear
    >>> numbers = AtomDomain(int, lower=0, upper=10)
    >>> square = Transformation("square", numbers, AtomDomain(int), AbsoluteDistance(), AbsoluteDistance(),
    ...     lambda x: x * x, Linear(Fraction(10)))
    >>> print(falsify(square, 1))
    square: BROKEN: at d_in = 1 outputs lie 19 apart, the map claims at most 10 (ratio 1.9)
      one input: 10
      the other: 9
      output: 100
      the other: 81
      in exact rationals: ratio 1.9
      1001 pairs tested, seed 0
    """
    if not isinstance(transformation, Transformation):
        raise ParameterError("transformation", transformation, "a Transformation")
    room, budget = distance_in(d_in), positive_int(evaluations, "evaluations")
    members = list(members)
    for index, given in enumerate(members):
        if not transformation.input_domain.contains(given):
            raise ParameterError(f"members[{index}]", given, f"in {transformation.input_domain}")
    pairs = make_pairs(transformation.input_domain, transformation.input_metric, members)
    search, draw = _Search(transformation, room, pairs, budget), Draw(seed)
    for one, other in islice(combinations(members, 2), min(GIVEN_PAIRS, budget)):
        search.try_pair(one, other)
    for state in islice(pairs.iter_long(draw, room), budget // 10):
        one, other = pairs.build(state, room)
        if len(one) <= LONGEST_SHARE * budget:  # who asks for few evaluations wants no long ones
            search.try_pair(one, other)
    while search.tried < min(budget, search.enough):
        if 2 * search.tried < search.enough or not search.best:
            search.draw(draw)
        else:
            search.improve(draw)
    if not search.found:
        raise QueryError(
            f"falsify made no pair of inputs of {transformation.name!r} within d_in = {room}. "
            "Pass some: members=[one, other, ...]"
        )
    worst = max(f._rank for f in search.found)
    found = min((f for f in search.found if f._rank == worst), key=lambda f: _size(f.inputs))
    if found.failure is None:
        found = replace(found, exact_ratio=search.replay(found.inputs, found.bound))
    return replace(found, evaluations=search.judged, seed=seed)


class _Search:
    """The falsifier's search: the best pairs of inputs so far, each with the state that it was built from."""

    def __init__(self, transformation: Transformation, room: Fraction, pairs: Pairs, budget: int) -> None:
        self.transformation, self.room, self.pairs, self.budget = transformation, room, pairs, budget
        self.enough = budget  # pairs to try; fewer once a violation is found
        self.best: list[tuple[State, Falsification]] = []
        self.given: list[Falsification] = []
        self.claims: dict[Fraction, Distance] = {}
        self.tried = self.judged = 0

    @property
    def found(self) -> list[Falsification]:
        return [*(f for _, f in self.best), *self.given]

    def try_pair(self, one: Any, other: Any) -> None:
        """Measure a given pair of inputs in a falsifier's search."""
        judged = self._measure_pair(one, other)
        if judged and (not self.given or judged._rank > self.given[0]._rank):
            self.given = [judged]

    def draw(self, draw: Draw) -> None:
        """Measure a new pair in a falsifier's search, and keep it if it is among the best."""
        state = self.pairs.drawn(draw, self.room)
        judged = self._measure_pair(*self.pairs.build(state, self.room))
        if judged and all(judged._rank != f._rank for _, f in self.best):
            self.best = sorted([*self.best, (state, judged)], key=lambda b: b[1]._rank, reverse=True)[:KEPT]

    def improve(self, draw: Draw) -> None:
        """Change one of the best pairs in a falsifier's search, and keep what is better."""
        at = draw.choose_early(range(len(self.best)))
        state, old = self.best[at]
        for _ in range(draw.choose_early((1, 2, 4))):
            state = self.pairs.mutate(state, draw, self.room)
        judged = self._measure_pair(*self.pairs.build(state, self.room))
        if judged is None or judged._rank < old._rank:
            return
        if judged._rank > old._rank or draw.is_rare_event(8) or _size(judged.inputs) <= _size(old.inputs):
            self.best[at] = state, judged
            self.best.sort(key=lambda b: b[1]._rank, reverse=True)

    def _measure_pair(self, one: Any, other: Any) -> Falsification | None:
        """Measure how far apart a pair's outputs lie; None where the falsifier may not use the pair."""
        self.tried += 1
        inside = self.transformation.input_domain.contains
        if not (inside(one) and inside(other)):
            return None
        apart = self.transformation.input_metric.distance(one, other)
        if not apart <= self.room:
            return None
        self.judged += 1
        outputs: list[Any] = []
        for value in (one, other):
            swapped = (one, other) if value is one else (other, one)
            try:
                outputs.append(self.transformation(value))
            except Exception as error:
                return self._failed("error", swapped, (error, None))
            if not self.transformation.output_domain.contains(outputs[-1]):
                return self._failed("output", swapped, (outputs[-1], None))
        distance = self.transformation.output_metric.distance(*outputs)
        at, bound = self.room, self._claim(self.room)
        if distance <= bound and apart < self.room and distance > self._claim(Fraction(apart)):
            at, bound = Fraction(apart), self._claim(Fraction(apart))
        broken = distance > bound
        found = Falsification(
            self.transformation.name,
            broken,
            "distance" if broken else None,
            (one, other),
            (outputs[0], outputs[1]),
            at,
            distance,
            bound,
            _ratio(distance, bound),
            self.replay((one, other), bound) if broken else None,
        )
        if broken and not found.artefact:  # what is broken is made clearer for a while
            self.enough = min(self.enough, self.tried + self.budget // 4)
        return found

    def _failed(self, failure: str, inputs: tuple[Any, Any], outputs: tuple[Any, Any]) -> Falsification:
        bound = self._claim(self.room)
        return Falsification(
            self.transformation.name, True, failure, inputs, outputs, self.room, math.inf, bound, math.inf
        )

    def _claim(self, d_in: Fraction) -> Distance:
        if d_in not in self.claims:
            self.claims[d_in] = self.transformation.map(d_in)
        return self.claims[d_in]

    def replay(self, inputs: tuple[Any, Any], bound: Distance) -> Distance | None:
        """Return the ratio of a falsified claim in exact rationals; None where floats are needed."""
        outputs = exact_outputs(self.transformation.function, inputs)
        return (
            None if outputs is None else _ratio(self.transformation.output_metric.distance(*outputs), bound)
        )


def _ratio(distance: Distance, bound: Distance) -> Distance:
    if distance == 0 or bound == math.inf:
        return Fraction(0)
    return math.inf if distance == math.inf or bound == 0 else Fraction(distance) / Fraction(bound)


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        value = list(value.values())
    return 1 + sum(map(_size, value)) if isinstance(value, (list, tuple)) else 1


def _short(value: Any) -> str:
    text = f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _number(number: Any) -> str:
    """Write a number of a falsification with six digits; near 1, its difference from 1."""
    if number == math.inf:
        return "inf"
    if 0 < abs(number - 1) < Fraction(1, 10**5):
        return f"1 {'+' if number > 1 else '-'} {float(abs(number - 1)):.2g}"
    if Fraction(1, 10**300) < abs(number) < 10**300 or number == 0:
        return f"{float(number):.6g}"
    numerator, denominator = Fraction(number).as_integer_ratio()
    return f"about 10^{round((numerator.bit_length() - denominator.bit_length()) * math.log10(2))}"
