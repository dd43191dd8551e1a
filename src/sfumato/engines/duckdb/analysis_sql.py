"""The SQL of an analysis for the owner: what units bring to groups under many limits, of one look at rows.

Rows are put together by unit and group once, as a release without a limit of groups would. What a unit brings
to a group under a limit of rows, or under bounds, follows from that. It is added up by group and by the
number j of groups that units are in, as that alone says what a limit of groups leaves of it: a part p in
expectation, and where groups are chosen at random with the variance p (1 - p) times its square.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.engines.duckdb.bounding_sql import PUBLIC_KEYS, BoundingSql, write_tables
from sfumato.engines.duckdb.ordering import order_by
from sfumato.framework import WHOLE
from sfumato.guidance.unit_contributions import Atom, Column, Contributions, Pair, Ranked, Share
from sfumato.sql_text import double

# No value counts as more than this, whose square is a float64 too.
LARGEST = 1e120


class ContributionsSql(BoundingSql):
    """Writes the SQL of one analysis: what units contribute to groups under many limits.

    Args:
        asked: what is asked of the rows.
        options: as of `BoundingSql`.
    """

    def __init__(self, asked: Contributions, **options: Any) -> None:
        super().__init__(asked.exact, **options)
        self.asked = asked
        self._used = {column.name for column in asked.columns}
        # Name by expression: over values of a pair's rows, over what a pair has, and over pairs.
        self._of_pairs: dict[str, str] = {}
        self._brought: dict[str, str] = {}
        self._added: dict[str, str] = {}
        self._outputs = [*self._truths(), *self._by_share()]
        self._ranked = [self.values.value(self._finite_value(one.column), "DOUBLE") for one in asked.ranked]

    def text(self) -> str:
        """Return the SQL statement of an analysis."""
        ctes, pairs = self._bound_rows()
        brought = "".join(f", {text} AS {name}" for text, name in self._brought.items())
        ctes["units"] = f"SELECT u, count(*) AS j, sum(n)::DOUBLE AS t FROM {pairs} GROUP BY u"
        ctes["brought"] = f"SELECT {self._columns}j{brought} FROM {pairs} JOIN units USING (u)"
        added = ", ".join(f"{text} AS {name}" for text, name in self._added.items())
        ctes["sizes"] = f"SELECT {self._columns}j, {added} FROM brought GROUP BY {self._columns}j"
        outputs = ", ".join(f"CAST(sum({text}) AS DOUBLE) AS r{i}" for i, text in enumerate(self._outputs))
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        shares = [(i, s) for i, s in enumerate(self.asked.shares) if s.total is None]
        parts = "".join(f", {_share(s)} AS w{i}, w{i} * (1 - w{i}) AS v{i}" for i, s in shares)
        ctes["sums"] = f"SELECT {self._columns}{outputs} FROM (SELECT *{parts} FROM sizes){grouping}"
        for i, ranked in enumerate(self.asked.ranked):
            ctes[f"ranked{i}"] = self._sorted_values_sql(ranked, self._ranked[i], pairs)
        return f"WITH {write_tables(ctes, self.combined)}\n{self._shown()}"

    @property
    def _aggregates(self) -> list[tuple[str, str]]:
        return list(self._of_pairs.items())

    def _pair(self, text: str) -> str:
        return self._of_pairs.setdefault(text, f"p{len(self._of_pairs)}")

    def _bring(self, text: str) -> str:
        return self._brought.setdefault(text, f"a{len(self._brought)}")

    def _add(self, text: str) -> str:
        return self._added.setdefault(text, f"s{len(self._added)}")

    def _sum(self, text: str) -> str:
        """Return SQL of what pairs of an analysis contribute together, for units in as many groups."""
        return self._add(f"sum({self._bring(text)})")

    @property
    def _units(self) -> str:
        return self._add("count(*)")

    def _truths(self) -> list[str]:
        """Return SQL of exact totals of an analysis: rows, units, values, sums and squares without limits."""
        found = [self._sum("n"), self._units]
        for column in self.asked.columns:
            found.append(self._sum(self._valued(column.name)))
            value = self.values.value(self._value(column), "DOUBLE") if column.numeric else ""
            sums = [f"sum({value})", f"sum({value} * {value})" if column.squares else ""]
            found += [self._sum(self._pair(text)) if value and text else "0::DOUBLE" for text in sums]
        return found

    def _by_share(self) -> list[str]:
        """Return SQL of expected contributions and their variances for each limit of an analysis."""
        found = []
        for i, (atoms, pairs) in enumerate(zip(self.asked.atoms, self.asked.pairs, strict=True)):
            if (total := self.asked.shares[i].total) is not None:
                found += ChosenRows(self, total).sums(atoms, pairs)
                continue
            # Of a coin: mean, variance, third central moment.
            found += [f"{self._units} * {text}" for text in (f"w{i}", f"v{i}", f"v{i} * (1 - 2 * w{i})")]
            found += [f"{self._sum(self._atom(atom))} * w{i}" for atom in atoms]
            for one, other in pairs:
                first, second = sorted([self._bring(self._atom(one)), self._bring(self._atom(other))])
                found.append(f"{self._add(f'sum({first} * {second})')} * v{i}")
        return found

    def _valued(self, column: str) -> str:
        """Return SQL of how many rows of a unit in a group have a value, for an analysis."""
        return self._pair(f"count({self.values.value(_or_null(self.values.valued(column)), 'INTEGER')})")

    def _atom(self, atom: Atom) -> str:
        """Return SQL of what a unit contributes to a group under one limit of an analysis."""
        if atom.kind == "unit":
            return "1.0::DOUBLE"
        if atom.kind == "rows":
            return f"least(n, {atom.rows})::DOUBLE"
        limited = f" * (CASE WHEN n <= {atom.rows} THEN 1 ELSE {atom.rows}::DOUBLE / n END)"
        if atom.kind == "valued":
            return self._valued(atom.column) + limited
        if atom.kind == "unit_sum":
            total = self._pair(
                f"sum({self.values.value(self._finite(atom.column, -LARGEST, LARGEST), 'DOUBLE')})"
            )
            clamped = f"least(greatest({total}, {double(atom.lower)}), {double(atom.upper)})"
            return f"(CASE WHEN {total} IS NULL THEN 0 ELSE {clamped} END)"
        value = self.values.value(
            f"CASE WHEN {self.values.valued(atom.column)} THEN {self._from_centre(atom)} END",
            "DOUBLE",
        )
        total = self._pair(f"sum({value})" if atom.kind == "sum" else f"sum({value} * {value})")
        return f"coalesce({total}, 0)" + limited

    def _from_centre(self, atom: Atom) -> str:
        """Return SQL of a value within an analysed bound, as a distance from its middle."""
        clamped = (
            f"least(greatest({self.values.number(atom.column)}, {double(atom.lower)}), {double(atom.upper)})"
        )
        return f"{clamped} - {double(atom.centre)}"

    def _value(self, column: Column) -> str:
        """Return SQL of a value in an analysis, from the centre; an infinite value is at an end."""
        return f"{self._finite_value(column)} - {double(column.centre)}"

    def _finite_value(self, column: Column) -> str:
        return self._finite(column.name, column.lower, column.upper)

    def _finite(self, column: str, lower: float, upper: float) -> str:
        """Return SQL of an analysed column with finite values in the place of infinite ones."""
        number = self.values.number(column)
        if self.schema[column].type_name in ("FLOAT", "DOUBLE"):
            number = (
                f"CASE WHEN {number} = 'inf'::DOUBLE THEN {double(upper)} "
                f"WHEN {number} = '-inf'::DOUBLE THEN {double(lower)} ELSE {number} END"
            )
        clamped = f"least(greatest({number}, {double(-LARGEST)}), {double(LARGEST)})"
        return f"CASE WHEN {self.values.valued(column)} THEN {clamped} END"

    def _sorted_values_sql(self, ranked: Ranked, value: str, pairs: str) -> str:
        """Return SQL of each group's sorted values, and what limits of an analysis keep of them."""
        counted = ["sum(m) AS n"]
        for at, (i, rows) in enumerate(ranked.limits):
            share = self.asked.shares[i]
            each = (
                "1"
                if share.total is not None
                else f"(CASE WHEN n <= {rows} THEN 1 ELSE {rows}::DOUBLE / n END)"
            )
            part = _share(share)
            chance = f"{part} * (1 - {part})" if share.sampled else "0.0"
            counted += [
                f"sum(m * {each} * {part})::DOUBLE AS e{at}",
                f"sum(m * {each} * {each} * {chance})::DOUBLE AS d{at}",
            ]
        names = ["v", "n", *(f"{name}{at}" for at in range(len(ranked.limits)) for name in ("e", "d"))]
        entry = ", ".join(f"'{name}': {name}" for name in names)
        keys = "".join(f"near.{key} AS {key}, " for key in self.keys)
        together = f"near JOIN {pairs} ON ({self._same_pair('near', pairs)}) JOIN units ON (units.u = near.u)"
        alike = (
            f"SELECT {keys}near.{value} AS v, {pairs}.n AS n, units.j AS j, units.t AS t, "
            f"count(*)::DOUBLE AS m FROM {together} WHERE near.{value} IS NOT NULL GROUP BY ALL"
        )
        values = f"SELECT {self._columns}v, {', '.join(counted)} FROM ({alike}) GROUP BY {self._columns}v"
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {self._columns}list_sort(list({{{entry}}})) AS listed FROM ({values}){grouping}"

    def _shown(self) -> str:
        """Return the SELECT of an analysis's numbers for all groups, public ones without rows too."""
        base = PUBLIC_KEYS if self.query.public_keys is not None else "sums"
        joins = "" if base == "sums" else f" LEFT JOIN sums ON ({self._match(base, 'sums')})"
        columns = [f"{base}.{key} AS {key}" for key in self.keys]
        columns += [f"sums.r{i} AS r{i}" for i in range(len(self._outputs))]
        for i in range(len(self.asked.ranked)):
            joins += f" LEFT JOIN ranked{i} ON ({self._match(base, f'ranked{i}')})"
            columns.append(f"ranked{i}.listed AS listed{i}")
        return f"SELECT {', '.join(columns)} FROM {base}{joins}{_order(base, self.keys)}"


class ChosenRows:
    """Writes SQL of an analysis of a row limit: what a random choice of a unit's rows leaves in expectation.

    Of t rows, T = `total` are chosen, each T of them with the same probability: without replacement.

    Args:
        sql: of which analysis.
        total: the limit.
    Source:
        Cochran 1977, "Sampling techniques", theorems 2.1 to 2.3: mean, variance and covariance of sums over
        such a choice. That no row of a group is chosen is hypergeometric.
    """

    def __init__(self, sql: ContributionsSql, total: int) -> None:
        self.sql = sql
        self.total = total
        self.rows: str = sql._bring("t")
        self.part: str = sql._bring(f"least(1, {total}::DOUBLE / t)")
        spread = f"{total}::DOUBLE * (t - {total}) / (t * (t - 1))"
        self.spread: str = sql._bring(f"(CASE WHEN t > {total} THEN {spread} ELSE 0 END)")
        self.present: str = self._kept_probability_sql("n")

    def _kept_probability_sql(self, rows: str) -> str:
        """Return SQL of the probability that a row limit keeps any of a unit's rows in a group."""
        others, left = f"greatest(t - {self.total}, 0)", f"greatest(t - {rows} - {self.total}, 0)"
        ways = f"lgamma(t - {rows} + 1) + lgamma({others} + 1) - lgamma({left} + 1) - lgamma(t + 1)"
        chance = f"(CASE WHEN t - {rows} < {self.total} THEN 1 ELSE 1 - exp({ways}) END)"
        return self.sql._bring(chance)

    def sums(self, atoms: Sequence[Atom], pairs: Sequence[Pair]) -> list[str]:
        """Return SQL of an analysis's expected contributions under a limit of rows in all groups."""
        h = self.present
        units = [f"{h}", f"{h} * (1 - {h})", f"{h} * (1 - {h}) * (1 - 2 * {h})"]
        found = [*units, *map(self._expected, atoms), *(self._moment(*pair) for pair in pairs)]
        return [self.sql._add(f"sum({text})") for text in found]

    def _expected(self, atom: Atom) -> str:
        """Return SQL of a unit's expected contribution to a group under a row limit."""
        if atom.kind == "unit":
            return self.present
        if atom.kind == "unit_sum":
            return self._clamped(atom)[0]
        return f"{self.part} * {self._total(atom)}"

    def _moment(self, one: Atom, other: Atom) -> str:
        """Return SQL of the covariance of two contributions of a unit under a row limit."""
        if one.kind == "unit" or other.kind == "unit":
            # Nothing comes of a unit that is not there.
            return f"{self._expected(other if one.kind == 'unit' else one)} * (1 - {self.present})"
        if one == other and one.kind == "unit_sum":
            return self._clamped(one)[2]
        inside = "".join(f" * {self._clamped(a)[1]}" for a in (one, other) if a.kind == "unit_sum")
        first, second = sorted([self._row(one), self._row(other)])
        products = self.sql._bring(f"coalesce({self.sql._pair(f'sum({first} * {second})')}, 0)")
        return (
            f"{self.spread} * ({products} - {self._total(one)} * {self._total(other)} / {self.rows}){inside}"
        )

    def _row(self, atom: Atom) -> str:
        """Return SQL of what a row contributes, in the analysis of a row limit."""
        values = self.sql.values
        if atom.kind == "rows":
            return "1"
        if atom.kind == "unit_sum":
            return values.value(f"coalesce({self.sql._finite(atom.column, -LARGEST, LARGEST)}, 0)", "DOUBLE")
        valued = values.valued(atom.column)
        if atom.kind == "valued":
            return values.value(f"CASE WHEN {valued} THEN 1 ELSE 0 END", "INTEGER")
        value = f"CASE WHEN {valued} THEN {self.sql._from_centre(atom)} ELSE 0 END"
        return values.value(value if atom.kind == "sum" else f"({value}) * ({value})", "DOUBLE")

    def _total(self, atom: Atom) -> str:
        """Return SQL of what all rows of a unit in a group contribute, before the row limit."""
        return self.sql._bring("n" if atom.kind == "rows" else self.sql._pair(f"sum({self._row(atom)})"))

    def _clamped(self, atom: Atom) -> tuple[str, str, str]:
        """Return SQL of mean, chance to be within bounds and variance of a unit's sum under a row limit.

        Exact where all rows are chosen, where the sum of no choice is beyond a bound, and where there is one
        row; else as if sums of the rows that are chosen had a logistic law.
        """
        low, high, row = double(atom.lower), double(atom.upper), self._row(atom)
        least, most = (self.sql._pair(f"sum({end}({row}, 0))") for end in ("least", "greatest"))
        squares = self.sql._pair(f"sum({row} * {row})")
        valued = self.sql._bring(self.sql._valued(atom.column))
        total, h, p = self._total(atom), self._kept_probability_sql(valued), self.part
        whole = f"least(greatest({total}, {low}), {high})"
        free = f"({least} >= {low} AND {most} <= {high})"
        variance = f"{self.spread} * ({squares} - {total} * {total} / t)"
        middle = f"({p} * {total} / {h})"
        second = f"(({variance} + ({p} * {total}) * ({p} * {total})) / {h})"
        scale = f"(sqrt(greatest({second} - {middle} * {middle}, 0)) * 0.5513288954217921 + 1e-300)"

        def above(end: str) -> str:
            z = f"(({middle} - {end}) / {scale})"
            return f"{scale} * (greatest({z}, 0) + ln(1 + exp(-abs({z}))))"

        def chance(end: str) -> str:
            return f"(1 / (1 + exp(least(({end} - {middle}) / {scale}, 700))))"

        mean = self.sql._bring(
            f"(CASE WHEN {valued} = 0 THEN 0 WHEN {p} >= 1 THEN {whole} WHEN {free} THEN {p} * {total} "
            f"WHEN {valued} = 1 THEN {h} * {whole} "
            f"ELSE {h} * ({low} + {above(low)} - {above(high)}) END)"
        )
        inside = self.sql._bring(
            f"(CASE WHEN {valued} = 0 THEN 0 WHEN {free} THEN 1 "
            f"WHEN {valued} = 1 THEN (CASE WHEN {whole} = {total} THEN 1 ELSE 0 END) "
            f"ELSE {chance(low)} - {chance(high)} END)"
        )
        own = f"greatest({second} - {middle} * {middle}, 0) * {inside}"
        spread = (
            f"(CASE WHEN {valued} = 0 OR {p} >= 1 THEN 0 WHEN {free} THEN {variance} "
            f"WHEN {valued} = 1 THEN {whole} * {whole} * {h} * (1 - {h}) "
            f"ELSE {h} * {own} + {mean} * {mean} * (1 / {h} - 1) END)"
        )
        return mean, inside, self.sql._bring(spread)


def _order(base: str, keys: Sequence[str]) -> str:
    return f" {order_by([f'{base}.{key}' for key in keys])}" if keys else ""


def _or_null(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 1 END"


def _share(share: Share) -> str:
    """Write the part of a unit that a limit of an analysis keeps: `Share.of` in SQL."""
    if share.total is not None:
        return f"least(1, {share.total}::DOUBLE / t)"
    if share.groups is None:
        return "1.0::DOUBLE"
    if share.scaled:
        whole = share.groups * WHOLE
        return f"(CASE WHEN j <= {share.groups} THEN 1 ELSE ({whole}::BIGINT // j) / {WHOLE}::DOUBLE END)"
    return f"least(1, {share.groups}::DOUBLE / j)"
