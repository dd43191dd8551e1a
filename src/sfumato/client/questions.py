"""Questions to a service: checked and planned here, on what is declared, and released there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from sfumato.client.released import Asked, RemoteRelease
from sfumato.client.remote import NOT_HERE, Remote
from sfumato.dataclass import dataclass
from sfumato.display.card import Card
from sfumato.errors import BudgetError
from sfumato.exact import Number
from sfumato.names import foreign
from sfumato.query.choices import Amount, NoiseChoice, SelectionChoice
from sfumato.query.largest_groups import Top
from sfumato.query.previews.preview import Preview
from sfumato.query.question import Question
from sfumato.service.recorded import Recorded, written

if TYPE_CHECKING:
    from sfumato.budget import Budget
    from sfumato.query.largest_groups import TopExplanation
    from sfumato.query.noisy.top_measurement import TopMeasurement
    from sfumato.query.plans.plan import Plan


@dataclass(frozen=True, repr=False)
class RemoteQuestion(Remote):
    """A complete question to a service, validated here: it can be planned, previewed and released.

    Made by `RemoteTable.agg`, of a table that `connect` leads to.

    >>> from sfumato.client import connect
    >>> import sfumato as sf
    >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
    >>> asked
    <RemoteQuestion of visits: n by year>
    >>> asked.output_names
    ('n',)
    """

    _foreign = foreign.QUESTION | NOT_HERE

    local: Question[Any] = field(kw_only=True)

    @property
    def told(self) -> str:
        """What is asked, in a few words."""
        return self.local.told

    @property
    def automatic(self) -> bool:
        """Whether the question leaves something to its release, which looks at the rows first."""
        return self.local.automatic

    @property
    def output_names(self) -> tuple[str, ...]:
        """The output's columns after the keys."""
        return self.local.output_names

    def weigh(self, /, **weights: Number) -> RemoteQuestion:
        """Say how much what is asked matters, beside the rest, as `Question.weigh`.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> asked = visits.agg(n=sf.count_units(), visits=sf.sum("docvis"))
        >>> print(asked.weigh(visits=4).preview(epsilon=1, units=1000))
        epsilon  units  shown  n  n_error  visits  visits_error
              1  1,000   100%  5        5     440         617.1
        <BLANKLINE>
        Errors, not results: of made-up groups with one row of each unit...
        """
        local, recorded = self._next("weigh", (), weights)
        return replace(self, recorded=recorded, local=local)

    def plan(self, **options: Any) -> Plan:
        """Say what a release with these options would do and cost, as `Question.plan`; nothing is sent.

        Args:
            options: those of `Question.plan`.
        Returns:
            A `Plan`, as of `Question.plan`.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> asked.plan(epsilon="0.5").spent
        ExactCost(epsilon=0.5, delta=0)
        """
        return self.local.plan(**options)

    def preview(
        self,
        *,
        epsilon: Amount | Sequence[Amount] | None = None,
        units: int | Sequence[int] = (100, 1_000, 10_000),
        rows: int = 1,
        confidence: float = 0.95,
        means: Mapping[str, Number] | None = None,
        share: Number | None = None,
        budget: Budget | None = None,
        **options: Any,
    ) -> Preview:
        """Say how wide error bars will be, and which groups are shown, as `Question.preview`.

        Nothing is sent. With `share`, `budget` is one of this process, such as `sf.Budget(epsilon=3)`; the
        preview's column `epsilon` says what to give to `release`.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> print(asked.preview(epsilon=["0.5", 1], units=3000))
        epsilon  units  shown   n  n_error
            0.5  3,000   100%  13       12
              1  3,000   100%   6        6
        <BLANKLINE>
        Errors, not results: of made-up groups with one row of each unit...
        """
        return self.local.preview(
            epsilon=epsilon,
            units=units,
            rows=rows,
            confidence=confidence,
            means=means,
            share=share,
            budget=budget,
            **options,
        )

    def epsilon_for(
        self, *, units: int, rows: int = 1, confidence: float = 0.95, shown: float | None = None,
        means: Mapping[str, Number] | None = None, options: Mapping[str, Any] | None = None,
        **half_widths: Number,
    ) -> float:  # fmt: skip
        """Return about the smallest epsilon for error bars as narrow as asked, as `Question.epsilon_for`.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> asked.epsilon_for(units=3000, n=20)
        0.3034
        """
        return self.local.epsilon_for(
            units=units,
            rows=rows,
            confidence=confidence,
            shown=shown,
            means=means,
            options=options,
            **half_widths,
        )

    def ask(
        self, *, units: Sequence[int] = (100, 1_000, 10_000), confidence: float = 0.95, **options: Any
    ) -> Asked:
        """Let the service say what it costs, what is left, and whether it would give an answer once more.

        Args:
            units, confidence: as of `Client.ask`.
            options: of `release`.
        Returns:
            An `Asked`.
        Raises:
            QueryError, BudgetError, RefusalError: as from `release`; nothing is read, and nothing spent.
            EngineError: the service does not answer.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> asked.ask(units=[], epsilon="0.5").cost
        Cost(epsilon=0.5, delta=0.0)
        """
        return self.service._ask(self._sent(options), units, confidence)

    def release(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount = 0,
        noise: NoiseChoice = "auto",
        group_selection: SelectionChoice = "auto",
        pre_threshold: int = 1,
        diagnostics: Number | None = None,
        auto_share: Amount | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        dummy: bool = False,
    ) -> RemoteRelease:
        """Let the service release the answer, and spend its cost of your budget there.

        Args:
            epsilon, delta, noise, group_selection, pre_threshold, diagnostics, auto_share: as of
                `Question.release`.
            confidence, simultaneous: of the error bars that come with it.
            dummy: ask rows that the service makes up, for free.
        Returns:
            The answer; the same question again is given once more, for nothing, where the owner has named the
            version of the data.
        Raises:
            QueryError, BudgetError, RefusalError: as beside the rows; nothing is spent then.
            EngineError: the service does not answer. Where it had the question, it may have spent its cost:
                `Client.history` tells.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> asked = connect(url, token).table("visits").group_by("year").agg(n=sf.count_units())
        >>> answer = asked.release(epsilon="0.5")
        >>> answer
        <RemoteRelease of year, n; epsilon=0.5, delta=0>
        >>> answer["year"]
        [1984, 1985, 1986, 1987, 1988]
        """
        if epsilon is None:
            raise BudgetError("epsilon is left out, but must be a finite number greater than 0")
        chosen: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "noise": noise}
        chosen |= {"group_selection": group_selection, "pre_threshold": pre_threshold}
        chosen |= {"diagnostics": diagnostics, "auto_share": auto_share}
        defaults = signature(Question.release).parameters
        options = {name: one for name, one in chosen.items() if one is not defaults[name].default}
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        return self.service._release(self._sent(options), confidence, **flags)

    def _sent(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the question as it is sent, once what is wrong with it is said here."""
        self.local._checked_plan(**options)
        return _body(self.recorded, options)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<Question", f"<RemoteQuestion of {self.recorded.name}", 1)


@dataclass(frozen=True, repr=False)
class RemoteTop(Remote):
    """The question to a service for the k largest groups; made by `RemoteTable.top`.

    A `Client`, which `connect` gives, has the table.

    >>> from sfumato.client import connect
    >>> ages = connect(url, token).table("visits").top("age", k=3)
    >>> ages
    <RemoteTop of visits: the 3 largest groups by age>
    """

    _foreign = foreign.QUESTION | NOT_HERE

    local: Top = field(kw_only=True)

    def plan(self, **options: Any) -> Plan[Top, TopMeasurement]:
        """Say what a release with these options would do and cost, as `Top.plan`; nothing is sent.

        Args:
            options: those of `Top.plan`.
        Returns:
            A plan, with its `spent`; `explain` tells it in words.

        >>> from sfumato.client import connect
        >>> ages = connect(url, token).table("visits").top("age", k=3)
        >>> ages.plan(epsilon=1, delta="1e-6").spent
        ExactCost(epsilon=1, delta=1e-06)
        """
        return self.local.plan(**options)

    def explain(self, **options: Any) -> TopExplanation:
        """Tell in words what a release with these options would do, as `Top.explain`; nothing is sent.

        Args:
            options: those of `Top.explain`.
        Returns:
            Each step with its noise and cost.

        >>> from sfumato.client import connect
        >>> ages = connect(url, token).table("visits").top("age", k=3)
        >>> print(ages.explain(epsilon=1, delta="1e-6").steps[1])
        Draw 3 groups, one after another, each with a chance in proportion to e^(0.1749 x units)...
        """
        return self.local.explain(**options)

    def ask(self, **options: Any) -> Asked:
        """Let the service say what it costs, as `RemoteQuestion.ask`.

        Args:
            options: those of `Top.plan`.
        Returns:
            An `Asked`.

        >>> from sfumato.client import connect
        >>> ages = connect(url, token).table("visits").top("age", k=3)
        >>> ages.ask(epsilon=1, delta="1e-6").cost
        Cost(epsilon=1.0, delta=1e-06)
        """
        return self.service._ask(self._sent(options), (), 0.95)

    def release(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        dummy: bool = False,
    ) -> RemoteRelease:
        """Let the service release the keys of the largest groups, and spend its cost of your budget there.

        Args:
            epsilon, delta, counts, counts_share: as of `Top.release`.
            confidence, simultaneous, dummy: as of `RemoteQuestion.release`.
        Returns:
            A `RemoteRelease`.
        Raises:
            QueryError, BudgetError, EngineError: as from `RemoteQuestion.release`.

        >>> from sfumato.client import connect
        >>> numbers = connect(url, token).table("visits").top("docvis", k=3)
        >>> answer = numbers.release(epsilon=4, delta="1e-6")
        >>> len(answer), answer.to_arrow().column_names
        (3, ['rank', 'docvis', 'units'])
        """
        options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "counts": counts}
        if counts_share is not None:
            options["counts_share"] = counts_share
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        return self.service._release(self._sent(options), confidence, **flags)

    def _sent(self, options: Mapping[str, Any]) -> dict[str, Any]:
        self.local.plan(**options)
        return _body(self.recorded, options)

    def _card(self) -> Card:
        return self.local._card()

    def __repr__(self) -> str:
        return repr(self.local).replace("<Top", f"<RemoteTop of {self.recorded.name}", 1)


def _body(recorded: Recorded, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "chain": recorded.data,
        "options": {name: written(f"release: {name}", one) for name, one in options.items()},
    }
