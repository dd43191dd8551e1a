"""Faults of expressions: what a value of a row becomes."""

from tests.faults.fault import Fault

ENGINE = "engines/duckdb/"
PARTS = ENGINE + "expressions/"
VALUES = "tests/engines/test_expressions.py::test_an_expression_has_the_value_that_it_says"
REFUSED = "tests/engines/test_hostile_expressions.py::test_what_could_raise_or_grow_is_refused"
RAISING = "tests/engines/test_expressions.py::test_what_raises_as_it_is_written_does_not_in_its_total_form"
NUMBERS = "tests/engines/test_integers.py"

FAULTS: list[Fault] = [
    # Whole numbers and decimals.
    Fault("a difference is in the range of a sum", PARTS + "safe_forms.py",
          "return least - right[1], most - right[0]", "return least + right[0], most + right[1]", NUMBERS),
    Fault("a product is of numbers from zero on", PARTS + "safe_forms.py",
          "return min(ends), max(ends)\n    if sign == \"%\":", "return 0, max(ends)\n    if sign == \"%\":", NUMBERS),
    Fault("a product near the largest number is missing", PARTS + "safe_forms.py",
          'near = f"{kept} * (r - sign(r)) + {kept} * sign(r)"', 'near = "NULL::HUGEINT"', NUMBERS),
    Fault("the smallest number over -1 stops", PARTS + "safe_forms.py",
          "THEN r END\"\n    product", "OR true THEN r END\"\n    product", NUMBERS),
    Fault("the amount of the smallest number stops", PARTS + "safe_forms.py",
          "    if not fits(within, kind):\n        wide, within = _above_least(wide)", "    if False:\n        wide, within = _above_least(wide)", NUMBERS),
    Fault("half a step is rounded beyond a type", PARTS + "safe_forms.py",
          "else (least - step // 2, most + step // 2)", "else (least, most)", NUMBERS),
    # Casts, and types that meet.
    Fault("a cast that fails stops", PARTS + "safe_parts.py",
          'made(f"TRY_CAST(_0 AS {kind})", part.node), get_type', 'made(f"CAST(_0 AS {kind})", part.node), get_type', RAISING),
    Fault("decimals meet in a type that is too narrow", PARTS + "safe_parts.py",
          "if held[0] > int(target[1]) - int(target[2]) or held[1] > int(target[2]):", "if held[0] > 38:", VALUES),
    Fault("a place that is missing is the first or last one", PARTS + "safe_parts.py",
          'part = over(f"CASE WHEN _0 IS NOT NULL THEN {within} END", once', 'part = over(f"{within}", once', VALUES),
    Fault("a constant that does not fit its type passes", PARTS + "safe_parts.py",
          "        if len(casts) == 1:\n            (cast,) = casts\n", "        if len(casts) == 1:\n            return\n            (cast,) = casts\n", REFUSED),
    # Times.
    Fault("an interval may lead out of the calendar", PARTS + "times.py",
          "        ask(f\"SELECT hash({', '.join(ends)})\")", "        pass", REFUSED),
    Fault("days are taken from a date in place of added", PARTS + "times.py",
          'return over(f"_0 {sign} _1", _in_calendar(date)', 'return over("_0 - _1", _in_calendar(date)', VALUES),
    Fault("seconds beyond the calendar become times", PARTS + "times.py",
          "-62135596800 AND 253402300799 THEN", "-62135596800 AND 9e12 THEN", VALUES),
    # Texts, lists and documents.
    Fault("texts that grow are not cut", PARTS + "texts.py",
          'return part if part.constant or part.type_name != "VARCHAR" else', "return part if part else",
          "tests/engines/test_hostile_expressions.py::test_no_text_grows_without_end"),
    Fault("a pattern takes characters apart", PARTS + "texts.py",
          'if "\\\\C" in (pattern or ""):', 'if "\\\\none" in (pattern or ""):', REFUSED),
    Fault("a text is read as a document as it is", PARTS + "texts.py",
          "return plain(node, name, [document(parts[0]), *parts[1:]])", "return plain(node, name, parts)", RAISING),
    Fault("a document may have any length", PARTS + "safe_parts.py",
          'return over(f"CASE WHEN strlen(_0) <= {JSON_BYTES} THEN _0 END"', 'return over("CASE WHEN strlen(_0) >= 0 THEN _0 END"',
          "tests/engines/test_hostile_expressions.py::test_deep_documents_crash_nothing_and_take_no_memory"),
    Fault("a part of no text is empty", PARTS + "texts.py",
          'return over("CASE WHEN _0 IS NOT NULL THEN _1 END", text, found)', "return found", VALUES),
    Fault("a list holds any text whole", PARTS + "texts.py",
          "return plain(node, name, _shares(parts, len(parts)))", "return plain(node, name, parts)",
          "tests/engines/test_hostile_expressions.py::test_texts_in_lists_do_not_grow"),
    # Choices, and what may be called.
    Fault("a key of a map is a place", PARTS + "safe_forms.py",
          'if parts[0].type_name.startswith("MAP("):', "if False:", VALUES),
    Fault("constants may be as long as they like", PARTS + "safe_forms.py",
          "if (length or 0) > most:", "if (length or 0) > most**3:", REFUSED),
    Fault("a macro of a database is called", PARTS + "validation.py",
          'if node.get("schema") or node.get("catalog"):\n        # A', 'if node.get("none"):\n        # A',
          "tests/engines/test_hostile_expressions.py::test_a_macro_of_a_database_is_not_called"),
    Fault("fields of types whose casts crash are read", PARTS + "validation.py",
          "if hostile := _HOSTILE.search(kind):", "if hostile := _HOSTILE.fullmatch(kind):",
          "tests/engines/test_hostile_expressions.py::test_types_whose_casts_raise_are_refused_wherever_they_are"),
    Fault("texts of derived columns are not counted", ENGINE + "row_steps.py",
          "held = one.held + sum(times * size.held for times, size in used)", "held = one.held",
          "tests/engines/test_hostile_expressions.py::test_derived_columns_do_not_grow_without_end"),
    # A unit's rows.
    Fault("a large sum of a unit wraps around", ENGINE + "unit_aggregates.py",
          "whole = (_sum_of_large, _mean_of_large) if large else", "whole = (_sum_of_integers, _mean_of_integers) if large else", NUMBERS),
    Fault("the lower half of a negative sum is added twice", ENGINE + "unit_aggregates.py",
          "// {_HALF})\", rest", "// {_HALF} + 1)\", rest", NUMBERS),
]  # fmt: skip
