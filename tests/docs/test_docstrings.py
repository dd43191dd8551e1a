"""Docstrings of the reference: a short first line, an entry for each parameter, and what is returned."""

import inspect
from collections.abc import Iterator

from .pages import Entry, function, members, reference, shown

WIDEST = 110
RETURNING = (
    "Return ",
    "Whether ",
    "Refuse, ",
)  # a first line that says what comes back, or that nothing does


def first_line(docstring: str | None) -> str:
    return inspect.cleandoc(docstring or "").partition("\n")[0]


def is_bad_first_line(line: str) -> bool:
    return len(line) > WIDEST or not line.endswith(".")


def returns(value: object) -> bool:
    """Whether a function is annotated with a result."""
    return getattr(value, "__annotations__", {}).get("return", "None") not in ("None", None, "NoReturn")


def lacks_returns(entry: Entry) -> bool:
    text = reference.documented(entry.value, entry.owner)
    told = reference.sections(text)
    said = {"Returns", "Yields"} & {*told} or first_line(text).startswith(RETURNING)
    return returns(entry.value) and not said


def functions(pages: dict[str, str]) -> Iterator[Entry]:
    return (entry for entry in shown(pages.values()) if not isinstance(entry.value, type))


def test_what_is_wrong_is_found() -> None:
    assert is_bad_first_line("x" * WIDEST + ".") and is_bad_first_line("Return the noise")
    assert not is_bad_first_line("Return the noise.")

    def draw(scale: float) -> "float":
        """Draw noise."""
        return scale

    assert lacks_returns(Entry("draw", draw)) and reference.undescribed(draw) == ["scale"]


def test_first_lines_fit_a_line_and_end(pages: dict[str, str]) -> None:
    lines = {entry.name: first_line(entry.value.__doc__) for entry in shown(pages.values())}
    for entry in shown(pages.values()):
        for name, held in members(entry.value, entry.options) if isinstance(entry.value, type) else ():
            if inspect.isfunction(function(held)):
                lines[f"{entry.name}.{name}"] = first_line(function(held).__doc__)
    assert not {name: line for name, line in lines.items() if is_bad_first_line(line)}


def test_each_parameter_has_an_entry(pages: dict[str, str]) -> None:
    found = {entry.name: reference.undescribed(entry.value, entry.owner) for entry in functions(pages)}
    assert not {name: parameters for name, parameters in found.items() if parameters}


def test_results_are_described(pages: dict[str, str]) -> None:
    assert not [entry.name for entry in functions(pages) if lacks_returns(entry)]
