"""The OpenAPI document of the service, and the fields of request bodies, from `openapi.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.service.analyst_catalog import OF_PUBLIC, OF_QUESTIONS, OF_TABLES
from sfumato.service.answer_formats import ARROW, CSV, JSON
from sfumato.service.wire_format import KINDS, MAX_CALLS, is_shallow

_DECLARED: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("openapi.toml").read_text(encoding="utf-8")
)
PATHS: Mapping[str, Mapping[str, Any]] = _DECLARED["paths"]
# The fields of the bodies of requests, each with its schema.
FIELDS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    body: {name: _DECLARED["fields"][name] for name in names} for body, names in _DECLARED["bodies"].items()
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def admits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value fits the OpenAPI schema of a field, with limited nesting.

    >>> admits({"type": "number", "exclusiveMinimum": 0}, 0.5), admits({"type": "integer"}, True)
    (True, False)
    """
    if type(value) not in _TYPES[schema.get("type", "object")] or not is_shallow(value):
        return False
    if isinstance(value, list):
        return len(value) <= schema["maxItems"] and all(admits(schema["items"], one) for one in value)
    return not (
        ("minimum" in schema and not value >= schema["minimum"])
        or ("maximum" in schema and not value <= schema["maximum"])
        or ("exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"])
        or ("exclusiveMaximum" in schema and not value < schema["exclusiveMaximum"])
    )


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    schemas = {name: _DECLARED["schemas"][name] for name in ("Error", "Chain")}
    schemas["Error"]["properties"]["error"]["properties"]["kind"]["enum"] = sorted(KINDS)
    calls = schemas["Chain"]["properties"]["calls"]
    calls["maxItems"] = MAX_CALLS
    calls["items"]["prefixItems"][0]["enum"] = sorted({*OF_TABLES, *OF_PUBLIC, *OF_QUESTIONS})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sfumato",
            "version": __version__,
            "description": "Queries to tables of personal rows; answers are differentially private.",
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
        "paths": {
            path: {operation["method"]: _operation(path, operation)} for path, operation in PATHS.items()
        },
    }


def _operation(path: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI operation of one path."""
    name, media = path.removeprefix("/v1").split("/")[1].partition(".")[0], declared.get("media", JSON)
    of_error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    answers = [media, ARROW, CSV] if name in ("release", "answers") else [media]
    free = declared.get("free", False)
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": declared["summary"],
        "security": [] if free else [{"token": []}],
        "responses": {"200": {"description": "As asked.", "content": {one: {} for one in answers}}},
    }
    if name in _DECLARED["parameters"]:
        operation["parameters"] = [_DECLARED["parameters"][name]]
    if name == "ask":
        operation["responses"]["200"]["content"][media] = {"schema": _DECLARED["schemas"]["Asked"]}
    if not free:
        operation["responses"] |= {
            status: {"description": text, "content": of_error} for status, text in _DECLARED["errors"].items()
        }
    if name in FIELDS:
        schema = {
            "type": "object",
            "oneOf": [{"required": ["sql"]}, {"required": ["chain"]}],
            "additionalProperties": False,
            "properties": FIELDS[name],
        }
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return operation
