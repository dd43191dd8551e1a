"""The proportion of a stratified population, from a sample whose design is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, ParameterError
from sfumato.exact import Number, as_fraction
from sfumato.query.aggregates.aggregate import Aggregate, column_name
from sfumato.query.aggregates.bins import MOST_BINS, InBins, value_counts
from sfumato.query.schema import IN_PLACE, Kind, Schema, spelled
from sfumato.transformations.stratified import StratifiedDesign

# Behind the name that it is asked by: the standard error, and the ends of the confidence interval.
SUFFIXES = ("standard_error", "low", "high")


@dataclass(frozen=True, repr=False)
class Stratified(InBins):
    """The proportion of yes in a population, its standard error, and a confidence interval.

    Args:
        answer: the column of answers.
        design: how many were asked in each stratum, and how many there are.
        confidence: of the interval.
    """

    answer: str = ""
    design: StratifiedDesign | None = None
    confidence: Fraction = Fraction(19, 20)

    @property
    def columns(self) -> tuple[str, ...]:
        """The strata and the answers."""
        return (self.column, self.answer)

    @property
    def of_groups(self) -> bool:
        """Of a group the design is another one."""
        return False

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return the same, of columns by other names."""
        return replace(self, column=columns[self.column], answer=columns[self.answer])

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the proportion by its name, and what the sample and the noise together leave open of it."""
        return (name, *(f"{name}_{suffix}" for suffix in SUFFIXES))

    def drawn(self, name: str) -> tuple[str, ...]:
        """Return the ends of the interval, and the proportion between them."""
        return (f"{name}_low", name, f"{name}_high")

    def check(self, name: str, schema: Schema) -> None:
        """Check that the columns are there, of the strata's own type and of truth values."""
        super().check(name, schema)
        found = schema[self.answer]
        if found.kind is not Kind.BOOLEAN:
            raise ColumnError(
                f"agg: {name} is a proportion of yes in column {self.answer!r}, which is {found.type_name}; "
                f"say which values are yes, such as {spelled(self.answer)} = 1, {IN_PLACE}"
            )

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what it is, of which columns."""
        answer, stratum = (written.get(column, column) for column in (self.answer, self.column))
        return f"proportion of {answer}, stratified by {stratum}, {self.bins.count} strata"

    def note(self, name: str) -> str | None:
        """Say what is not read from the rows."""
        assert self.design is not None
        asked, population = sum(self.design.sample_sizes), sum(self.design.strat_sizes)
        return (
            f"{name}: the sizes of the sample ({asked:,} asked of {population:,}) are those that were given, "
            "not read from rows; its interval counts the sample and the noise, its error bar the noise alone."
        )


def stratified(
    column: str,
    stratum: object,
    asked: Mapping[Any, int] | None,
    population: Mapping[Any, int] | None,
    confidence: Number,
) -> Aggregate:
    """Ask for the proportion of a stratified population: see `proportion`.

    Raises:
        QueryError: a column is no name.
        ParameterError: sizes are not there for the same strata, or out of range.
    """
    for name, given in (("asked", asked), ("population", population)):
        if not isinstance(given, Mapping) or not given:
            what = "were asked in it" if name == "asked" else "there are in it"
            raise ParameterError(
                f"proportion: {name}", given, f"a mapping of each stratum to how many {what}: public numbers"
            )
    assert asked is not None and population is not None
    strata = sorted(population, key=repr)  # in whatever order they are given, they are the same
    if set(asked) != set(strata):
        expected = f"of the strata of population, {strata!r:.200}"
        raise ParameterError("proportion: asked", list(asked), expected)
    level = as_fraction(confidence, "proportion: confidence")
    if not 0 < level < 1:
        raise ParameterError("proportion: confidence", confidence, "greater than 0 and less than 1")
    if len(strata) > MOST_BINS:
        raise ParameterError("proportion: population", f"{len(strata):,} strata", f"at most {MOST_BINS:,}")
    places: Any = value_counts(column_name("proportion: stratum", stratum), strata)
    sizes = [asked[s] for s in strata], [population[s] for s in strata]
    design = StratifiedDesign(*sizes, "proportion", names=tuple(strata), called=("asked", "population"))
    answer = column_name("proportion", column)
    return Stratified(places.column, places.bins, places.suffixes, "row", False, answer, design, level)
