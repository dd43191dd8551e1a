"""The schema in the docs is that of the checker.

`python tests/certificate/test_schema.py` writes it.
"""

import json
from pathlib import Path

from sfumato.certificate.description import RECORDS, TAGS

SCHEMA = Path(__file__).parents[2] / "docs" / "certificate.schema.json"
NATURAL, RATIO = "[1-9][0-9]{0,2999}", "(/[1-9][0-9]{0,2999})?"
SCALARS = {
    "version": {"const": 1},
    "bits": {"type": "integer", "minimum": 0, "maximum": 128},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "whole": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "count": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
    "steps": {"type": "string", "pattern": f"^(0|-?{NATURAL})$"},
    "positive_steps": {"type": "string", "pattern": f"^{NATURAL}$"},
    "positive": {"type": "string", "pattern": f"^{NATURAL}{RATIO}$"},
    "share": {"type": "string", "pattern": f"^(0|{NATURAL}){RATIO}$"},
    "chance": {"type": "string", "pattern": f"^(0|{NATURAL}){RATIO}$"},
}


def schema(form):
    if form in SCALARS:
        return {"$ref": f"#/$defs/{form}"}
    if form[0] == "'":
        return {"enum": [value.strip("'") for value in form.split("|")]}
    base, many = form[:-1], form[-1]
    if many == "?":
        return {"anyOf": [schema(base), {"type": "null"}]}
    if many in "*+":
        return {"type": "array", "items": schema(base), "minItems": int(many == "+")}
    if many == "%":
        return {"type": "object", "additionalProperties": schema(base)}
    return {"$ref": f"#/$defs/{form}"}


def record(fields):
    properties = {name: schema(own) for name, own in fields.items()}
    required = list(fields)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def definitions():
    found = dict(SCALARS)
    for union in TAGS:
        kinds = [fields for name, fields in RECORDS.items() if name.startswith(f"{union}.")]
        found[union] = {"oneOf": [record(fields) for fields in kinds]}
    return found | {name: record(fields) for name, fields in RECORDS.items() if "." not in name}


def document():
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "What a release draws"}
    return json.dumps(head | schema("description") | {"$defs": definitions()}, indent=1) + "\n"


def test_the_schema_in_the_docs_is_that_of_the_checker():
    assert SCHEMA.read_text() == document(), "run python tests/certificate/test_schema.py"


if __name__ == "__main__":
    SCHEMA.write_text(document())
