"""Numbers of yes-answers in strata: rows in bins, where their answer is yes."""

from __future__ import annotations

from sfumato.dataclass import dataclass
from sfumato.transformations.statistics.bins import Listed, RowsInBins


@dataclass(frozen=True)
class YesInStrata(RowsInBins):
    """The numbers of yes-answers in strata, at most `rows` of each unit in all strata together.

    A row whose answer is true counts one in the stratum of its value. A unit with n rows, whatever their
    answers, adds rows/n for each that counts, cut to the grid.

    Args:
        answer: the column of answers: true, false, or NULL for one that is missing and counts as no.

    >>> awards = YesInStrata("school", "school", 1, Listed(("E", "H")), exponent=-2, answer="award")
    >>> awards.contribution([{"school": "H", "award": True}, {"school": "H", "award": None}])
    Counter({'school.bin1': 2})
    >>> awards.what(1)
    'yes-answers of award where school is H'

    Proof: docs/proofs/yes_in_strata.md.
    """

    answer: str = ""

    @property
    def where(self) -> str:
        """The answers: only yes counts."""
        return self.answer

    @property
    def columns(self) -> tuple[str, ...]:
        """The strata and the answers."""
        return (self.column, self.answer)

    @property
    def each_of(self) -> str:
        """All strata."""
        return f"yes-answers of {self.answer} in each of {self.bins.count:,} strata of {self.column}"

    def what(self, place: int) -> str:
        """Return whose yes-answers are counted.

        Args:
            place: of a stratum, from 0.
        """
        stratum = self.bins.values[place] if isinstance(self.bins, Listed) else place + 1
        return f"yes-answers of {self.answer} where {self.column} is {stratum}"
