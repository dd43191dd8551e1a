"""The receipt of a release: its cost, its plan, and a digest that identifies its answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from sfumato import __version__
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.budget.loss import certify_loss
from sfumato.certificate import Certificate
from sfumato.certificate.certificate import as_certified, checked
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed, Facts, TextCard
from sfumato.display.formatting import price
from sfumato.errors import EngineError, ParameterError, in_own_words, shown
from sfumato.exact.parameters import canonical_bytes
from sfumato.files import check_output_path, replacing
from sfumato.plan.plan import Described, describe
from sfumato.release.answer_digest import Answer, ColumnDigest, differences, opened, unique_names
from sfumato.release.payment import Charge

VERSION = 2
_WITHOUT_DESCRIPTION = 1  # the version of receipts that do not say what was drawn
_NUMBER = re.compile(r"[0-9]{1,300}(/0*[1-9][0-9]{0,700})?")
_Kind = TypeVar("_Kind")
_NO_ANSWER = (
    "the receipt has no digest of a table, as its rows were read elsewhere. sfumato verify "
    "receipt.json, without a table, recomputes the loss"
)
_ODD = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)  # in what somebody wrote


@dataclass(frozen=True, repr=False)
class Receipt(Displayed):
    """The receipt of a release as plain data: its cost, plan and a digest of its answer.

    The digest comes from the noisy answer alone, so the receipt reveals no more about rows than the answer,
    whose cost it states.

    Args:
        spent: epsilon and delta, exact.
        plan: the canonical form of the plan (docs/receipts.md).
        answer: the digest of what `write` writes; None if this process does not read the answer, as on Spark
            and Beam.
        with_error_bars: the digest of what `write` writes with error bars, if the receipt covers them; or
            None.
        sfumato: the version that made the release.
        dummy: whether the rows were dummies, so that the answer is about nobody.
        unsafe_words: whether the noise came from a test source, so that the answer is not private.
        ledger: the entries of the ledger that was charged, as `Entry.row()` gives them: one entry, or more if
            preliminary queries for bounds were charged separately; None without a ledger.
        bias: a sentence that the numbers do not include bias from contribution limits and bounds; "" if there
            can be none.
        description: the noise drawn, as the certificate reads it (docs/certificate.md); None in receipts of
            early versions.
    """

    spent: ExactCost
    plan: Mapping[str, Any] = field(hash=False)
    answer: Answer | None
    with_error_bars: Answer | None = None
    sfumato: str = __version__
    dummy: bool = False
    unsafe_words: bool = False
    ledger: Any = field(default=None, hash=False)
    bias: str = ""
    description: Mapping[str, Any] | None = field(default=None, hash=False)
    # As the receipt that was read has it; None where it is made here.
    certified: Mapping[str, str] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.description is not None and self.certified is None:
            object.__setattr__(self, "certified", as_certified(certify_loss(self.description)))

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain data, as in its file.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> receipt = visits.agg(people=sf.count_units()).release(epsilon="1/2").receipt()
        >>> told = receipt.to_dict()
        >>> told["spent"], told["plan"]["outputs"], told["answer"]["rows"]
        ({'epsilon': '1/2', 'delta': '0'}, [['people', {'kind': 'CountPrivacyUnits'}]], 1)
        """
        return self._signed | {"ledger": self.ledger, "sha256": self.sha256}

    @property
    def sha256(self) -> str:
        """The digest of the receipt without its ledger entry, by which a ledger can refer to it."""
        return hashlib.sha256(canonical_bytes(self._signed)).hexdigest()

    @property
    def _signed(self) -> dict[str, Any]:
        epsilon, delta = map(str, self.spent)
        drawn: dict[str, Any] = {"description": self.description, "certified": self.certified}
        return {
            "receipt": _WITHOUT_DESCRIPTION if self.description is None else VERSION,
            "sfumato": self.sfumato,
            "dummy": self.dummy,
            "unsafe_words": self.unsafe_words,
            "spent": {"epsilon": epsilon, "delta": delta},
            "plan": dict(self.plan),
            "answer": _answer_content(self.answer),
            "with_error_bars": _answer_content(self.with_error_bars),
            **({"bias": self.bias} if self.bias else {}),
            **({} if self.description is None else {"unit": self.description["unit"], **drawn}),
        }

    def _card(self) -> Card:
        facts = [
            ("answer", _format_rows(self.answer)),
            ("spent", price(*self.spent)),
            ("certified", _certified(self)),
            ("ledger", _describe_entries(self.ledger)),
            *([("bias", self.bias)] if self.bias else []),
            ("sha256", self.sha256),
            ("sfumato", self.sfumato),
        ]
        warnings = ["Of dummy rows."] * self.dummy + ["NOT PRIVATE: known noise."] * self.unsafe_words
        return Card("Receipt of a release", [Facts(facts)], " ".join(warnings))

    def __repr__(self) -> str:
        what = "an answer elsewhere" if self.answer is None else _rows(self.answer)
        return f"<Receipt of {what}; {price(*self.spent)}; sha256 {self.sha256[:12]}...>"

    def write(self, path: str | PathLike[str]) -> None:
        """Write the receipt to a .json file.

        Args:
            path: a path that ends in .json; a file of that name is replaced.
        Raises:
            ParameterError: the path is not valid.
            OSError: the file cannot be written.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> receipt = visits.agg(people=sf.count_units()).release(epsilon="1/2").receipt()
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     receipt.write(f"{folder}/receipt.json")
        ...     print(json.loads((Path(folder) / "receipt.json").read_text())["spent"])
        {'epsilon': '1/2', 'delta': '0'}
        """
        with replacing(check_output_path(path, "receipt path", (".json",))) as file:
            text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
            file.write(text.encode("utf-8", "backslashreplace") + b"\n")

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Receipt:
        """Read a receipt from a file that `write` wrote.

        Args:
            path: the path of the file.
        Returns:
            The receipt.
        Raises:
            ParameterError: the argument is not a path.
            EngineError: the file does not exist, is not a receipt, was changed, or is of a later version.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon="1/2")
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.receipt().write(f"{folder}/receipt.json")
        ...     release.write(f"{folder}/people.csv")
        ...     sf.Receipt.read(f"{folder}/receipt.json").verify(f"{folder}/people.csv").ok
        True
        """
        with in_own_words(_unread(path), *_ODD):
            return cls.of_dict(_plain(path))
        raise AssertionError

    @classmethod
    def of_dict(cls, given: Mapping[str, Any]) -> Receipt:
        """Return the receipt for plain data from `to_dict`.

        Args:
            given: the result of `to_dict`.
        Returns:
            The receipt.
        Raises:
            ValueError, TypeError, KeyError: it is not a receipt, or was changed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> receipt = visits.agg(people=sf.count_units()).release(epsilon="1/2").receipt()
        >>> import json
        >>> kept = json.dumps(receipt.to_dict())  # in a database, or in a message
        >>> sf.Receipt.of_dict(json.loads(kept)).spent.epsilon
        Fraction(1, 2)
        """
        _check_version(given)
        known = {"receipt", "sfumato", "dummy", "unsafe_words", "spent", "plan", "answer", "with_error_bars"}
        described = given["receipt"] > _WITHOUT_DESCRIPTION
        known |= {"unit", "description", "certified"} if described else set()
        odd = sorted(map(str, (set(given) - {"bias"}) ^ (known | {"ledger", "sha256"})))
        if odd:
            raise ValueError(f"its fields are wrong: {', '.join(odd)}")
        spent, answer, bars = given["spent"], given["answer"], given["with_error_bars"]
        if answer is None and (bars is not None or not described):
            raise ValueError("its answer is missing")
        made = cls(
            ExactCost(_fraction(spent["epsilon"]), _fraction(spent["delta"])),
            _typed(dict, given["plan"]),
            None if answer is None else _answer(answer),
            None if bars is None else _answer(bars),
            _typed(str, given["sfumato"]),
            _typed(bool, given["dummy"]),
            _typed(bool, given["unsafe_words"]),
            given["ledger"],
            _typed(str, given.get("bias", "")),
            _typed(dict, given["description"]) if described else None,
            {name: _typed(str, given["certified"][name]) for name in ("epsilon", "delta")}
            if described
            else None,
        )
        if canonical_bytes(made.to_dict() | {"ledger": None}) != canonical_bytes({**given, "ledger": None}):
            raise ValueError("its own sha256 does not match the rest of it")
        return made

    def certificate(self) -> Certificate:
        """Recompute the privacy loss from the receipt alone, without data or an engine.

        Returns:
            A `Certificate`: the epsilon and delta that bound the loss of the release.
        Raises:
            EngineError: the description may lose more than it claims, does not fit the rest of the receipt,
                or is missing, as in receipts of early versions.
        Source:
            docs/certificate.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> receipt = visits.agg(people=sf.count_units()).release(epsilon="1/2").receipt()
        >>> receipt.certificate().epsilon
        Fraction(1, 2)
        """
        found, wrong = checked(self.to_dict())
        if found is None or wrong:
            raise EngineError(f"the receipt is not certified: {'; '.join(wrong)}")
        return found

    def verify(self, answer: Any) -> Verification:
        """Compare a file or a table with the answer of the receipt.

        Args:
            answer: an Arrow table, or the path of a .parquet, .csv, .json or .arrow file.
        Returns:
            A `Verification`, true if they agree; `str()` says what was checked and where they differ.
        Raises:
            EngineError: the file does not exist or is not of this format, or the receipt has no digest of a
                table.
            ParameterError: answer is neither a table nor the path of a file with such an ending.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> receipt = release.receipt()
        >>> receipt.verify(release.to_arrow()).ok
        True
        """
        if self.answer is None:
            raise EngineError(_NO_ANSWER)
        wide = self.with_error_bars or self.answer
        what, table, odd = opened(answer, wide)
        compared = wide if table.num_columns > len(self.answer.columns) else self.answer
        # Dummy rows and known noise are said in words of their own.
        known = self._signed | {"dummy": False, "unsafe_words": False}
        wrong = () if self.description is None else tuple(checked(known)[1])
        return Verification(what, self, compared, tuple(odd or differences(table, compared)), wrong)


@dataclass(frozen=True, repr=False)
class Verification(TextCard):
    """The result of verifying a receipt: true if answer and receipt agree.

    Args:
        what: the answer, as messages name it.
        receipt: the receipt.
        released: the digest that was compared, with or without error bars.
        differences: a sentence for each difference; empty if they agree.
        wrong: a sentence for each error in the receipt itself.

    Made by `Receipt.verify`.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
    >>> receipt = visits.agg(people=sf.count_units()).release(epsilon="1/2").receipt()
    >>> verification = receipt.verify(pa.table({"persons": [2]}))
    >>> bool(verification), verification.differences[0]
    (False, "column 'people' was released, but is missing")
    """

    what: str
    receipt: Receipt
    released: Answer
    differences: tuple[str, ...]
    wrong: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether answer and receipt agree, the rows are real, and the noise is secure."""
        whole = not self.differences and not self.wrong
        return whole and not self.receipt.dummy and not self.receipt.unsafe_words

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        receipt, answer = self.receipt, self.released
        lines = [f"{self.what} is not the answer of this receipt:", *(f"- {d}" for d in self.differences)]
        if not self.differences:
            lines = [
                f"{self.what} agrees with the receipt: {_format_rows(answer)}.",
                "Checked: the names of its columns, the number of its rows, and the SHA-256 of all values, "
                "with rows in any order.",
            ]
        if receipt.dummy:
            lines.append("NOT A RELEASE: its rows were made up from declarations, and are nobody's.")
        if receipt.unsafe_words:
            lines.append("NOT PRIVATE: the noise came from a source for tests, and can be computed again.")
        epsilon, delta = (f"{float(part):g}" for part in receipt.spent)
        spent = "Of real rows it would spend" if receipt.dummy else "Spent"
        lines.append(f"{spent}: epsilon {epsilon}, delta {delta}, by sfumato {receipt.sfumato}.")
        lines.append(f"Certified: {_certified(receipt)}.")
        lines += [f"Refused: {one}." for one in self.wrong]
        lines.append(f"Ledger: {_describe_entries(receipt.ledger)}.")
        if receipt.bias:
            lines.append(receipt.bias)
        lines.append("A receipt is not signed: anybody who can change both files can make them agree.")
        return "\n".join(lines)


def receipt_elsewhere(
    plan: Described, form: Mapping[str, Any], paid: Sequence[Charge] = (), bias: str = ""
) -> Receipt:
    """Return the receipt of a release whose rows are read in another process.

    Args:
        plan: of the release.
        form: its canonical form.
        paid: what a ledger has entered for it.
        bias: as of `Receipt`.
    """
    entries = [one.entry.row() for one in paid] or None
    return Receipt(plan.spent, form, None, ledger=entries, bias=bias, description=describe([plan]))


def plain(path: str | PathLike[str], *, alone: bool = False) -> dict[str, Any]:
    """Return the content of a receipt file, whether or not its parts fit each other.

    Args:
        path: of the file.
        alone: whether a description does without a receipt around it.
    Raises:
        ParameterError, EngineError: as `Receipt.read`, but for that.
    """
    with in_own_words(_unread(path), *_ODD):
        given: dict[str, Any] = _plain(path)
        if not (alone and isinstance(given, dict) and "description" in given and "receipt" not in given):
            _check_version(given)
        return given
    raise AssertionError


def _plain(path: str | PathLike[str]) -> Any:
    return json.loads(Path(path).read_bytes().decode(), object_pairs_hook=unique_names)


def _check_version(value: object) -> None:
    version = value.get("receipt") if isinstance(value, Mapping) else None
    if not isinstance(version, int):
        raise ValueError("it does not say that it is a receipt")
    if version > VERSION:
        raise ValueError(f"it is of version {version}, but this sfumato reads {VERSION}")


def _unread(path: object) -> Callable[[Exception], EngineError]:
    """Return the function that explains why a receipt cannot be read.

    Raises:
        ParameterError: it is no path.
    """
    if not isinstance(path, str | PathLike):
        raise ParameterError("receipt", path, "the path of a file")
    where = f"receipt {shown(str(fspath(path)))}"

    def says(error: Exception) -> EngineError:
        if isinstance(error, OSError):
            return EngineError(f"{where} cannot be read: {error.strerror or type(error).__name__}")
        return EngineError(f"{where} is not a receipt of sfumato, or was changed: {_why(error)}")

    return says


def _certified(receipt: Receipt) -> str:
    if receipt.certified is None:
        return "nothing; this receipt does not say what was drawn, like all receipts of an early version"
    return f"epsilon {receipt.certified['epsilon']}, delta {receipt.certified['delta']}"


def _format_rows(answer: Answer | None) -> str:
    if answer is None:
        return "read elsewhere, so there is no digest of it"
    return f"{_rows(answer)}, with columns {', '.join(column.name for column in answer.columns)}"


def _rows(answer: Answer) -> str:
    return "1 row" if answer.rows == 1 else f"{answer.rows:,} rows"


def _describe_entries(ledger: Any) -> str:
    """Return a sentence on the ledger entries of a receipt."""
    if ledger is None:
        return "no entry"
    try:
        return "; ".join(_entry(**one) for one in ledger)
    except (TypeError, ValueError, AttributeError, LookupError):  # a slice of a dict is a key from 3.12 on
        return json.dumps(ledger)


def _entry(entry: int, at: str, dataset: str, what: str, analyst: str | None = None, **_: Any) -> str:
    who = "" if analyst is None else f", by {shown(analyst)}"
    when = shown(at[:16].replace("T", " "))
    return f"entry {entry:d} of {shown(dataset)}{who}, {shown(what)}, at {when} UTC"


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeError | json.JSONDecodeError | RecursionError):
        return "it is not JSON"
    return str(error) if type(error) is ValueError else "a field is missing, or of the wrong type"


def _answer_content(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    columns = [{"name": c.name, "type": c.type, "sha256": c.sha256} for c in answer.columns]
    return {"rows": answer.rows, "columns": columns, "sha256": answer.sha256}


def _answer(given: Mapping[str, Any]) -> Answer:
    fields = ("name", "type", "sha256")
    columns = tuple(ColumnDigest(*(_typed(str, one[name]) for name in fields)) for one in given["columns"])
    rows = _typed(int, given["rows"])
    if rows < 0 or isinstance(rows, bool) or len({c.name for c in columns}) < len(columns):
        raise ValueError("its rows or columns are not numbers")
    return Answer(rows, columns, _typed(str, given["sha256"]))


def _typed(kind: type[_Kind], value: object) -> _Kind:
    """Return a field of a receipt with the type that it must have."""
    if not isinstance(value, kind):
        raise TypeError
    return value


def _fraction(text: object) -> Fraction:
    """Return an exact cost from a receipt; refuse an exponent, whose digits may take all memory."""
    if not _NUMBER.fullmatch(_typed(str, text)):
        raise ValueError("what was spent is not a number")
    return Fraction(str(text))
