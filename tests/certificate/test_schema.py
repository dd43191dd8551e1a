"""The schema in the docs is that of the checker.

`python tests/certificate/test_schema.py` writes it.
"""

import json
from pathlib import Path

from sfumato.certificate.description import DESCRIPTION, ListOf, MapOf, Null, OneOf, Tagged

SCHEMA = Path(__file__).parents[2] / "docs" / "certificate.schema.json"
NATURAL, RATIO = "[1-9][0-9]{0,2999}", "(/[1-9][0-9]{0,2999})?"
SCALARS = {
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "whole": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "count": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
    "integer": {"type": "integer", "minimum": 1 - 2**63, "maximum": 2**63 - 1},
    "steps": {"type": "string", "pattern": f"^(0|-?{NATURAL})$"},
    "positive_steps": {"type": "string", "pattern": f"^{NATURAL}$"},
    "positive": {"type": "string", "pattern": f"^{NATURAL}{RATIO}$"},
    "share": {"type": "string", "pattern": f"^(0|{NATURAL}){RATIO}$"},
    "chance": {"type": "string", "pattern": f"^(0|{NATURAL}){RATIO}$"},
}


def schema(form):
    if isinstance(form, str):
        return {"$ref": f"#/$defs/{form}"}
    if isinstance(form, Null):
        return {"anyOf": [schema(form.form), {"type": "null"}]}
    if isinstance(form, OneOf):
        return {"enum": list(form.values)}
    if isinstance(form, ListOf):
        return {"type": "array", "items": schema(form.form), "minItems": form.least}
    if isinstance(form, MapOf):
        return {"type": "object", "additionalProperties": schema(form.form)}
    if isinstance(form, Tagged):
        records = [{form.tag: OneOf((name,)), **fields} for name, fields in form.records.items()]
        return {"oneOf": [schema(record) for record in records]}
    return {
        "type": "object",
        "properties": {name: schema(own) for name, own in form.items()},
        "required": list(form),
        "additionalProperties": False,
    }


def document():
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "What a release draws"}
    return json.dumps(head | schema(DESCRIPTION) | {"$defs": SCALARS}, indent=1) + "\n"


def test_the_schema_in_the_docs_is_that_of_the_checker():
    assert SCHEMA.read_text() == document(), "run python tests/certificate/test_schema.py"


if __name__ == "__main__":
    SCHEMA.write_text(document())
