"""Python code of values and calls: datasets in reports, and the line that audits a pair again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sfumato.audit.claims import Claim
    from sfumato.audit.mechanisms import Mechanism


def literal(value: Any) -> str:
    """Return one line of Python code that makes the value, as far as there is one.

    Args:
        value: a list, tuple, mapping, NumPy array, or a table of Arrow, pandas or Polars, with plain values.

    >>> literal([0.5, float("nan")])
    "[0.5, float('nan')]"
    >>> import pyarrow as pa
    >>> literal(pa.table({"unit": [1, 2], "x": [0.5, None]}))
    "pyarrow.table({'unit': [1, 2], 'x': [0.5, None]})"
    """
    if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
        return literal(value.item())
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if type(value) is list:
        return f"[{_join_lines(value)}]"
    if type(value) is tuple:
        return f"({_join_lines(value)}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"numpy.array({literal(value.tolist())}, dtype={value.dtype.str!r})"
    module = type(value).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(value, "to_pydict"):
        return f"pyarrow.table({literal(value.to_pydict())})"
    if module == "pyarrow" and hasattr(value, "to_pylist"):
        return f"pyarrow.array({literal(value.to_pylist())})"
    if module == "pandas" and hasattr(value, "columns"):
        return f"pandas.DataFrame({literal(value.to_dict('list'))})"
    if module == "polars" and hasattr(value, "columns"):
        return f"polars.DataFrame({literal(value.to_dict(as_series=False))})"
    return " ".join(repr(value).split())


def shown(value: Any, limit: int = 200) -> str:
    """Return a value as Python code, cut to a length; one that contains itself as its `repr`."""
    try:
        code = literal(value)
    except RecursionError:
        code = repr(value)
    return cut(code, limit)


def cut(text: str, limit: int = 200) -> str:
    """Return Python code or another text cut to a length."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _join_lines(values: Any) -> str:
    return ", ".join(map(literal, values))


def replay(mechanism: Mechanism, claim: Claim, dataset: Any, neighbour: Any, more: str = "") -> str:
    """Return a line of Python code that audits one pair of datasets again; `more` are further keywords."""
    name, imported = mechanism._code
    pairs = f"pairs=[({literal(dataset)}, {literal(neighbour)})]"
    return f"{imported}audit({name}, {claim.code}, {pairs}{', ' * bool(more)}{more})"
