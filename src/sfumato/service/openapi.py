"""The interface as data: fields of requests, by which these are checked, and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sfumato import __version__
from sfumato.dataclass import dataclass
from sfumato.service.answers import ARROW, CSV, JSON
from sfumato.service.chain import OF_PUBLIC, OF_QUESTIONS, OF_TABLES
from sfumato.service.faults import KINDS
from sfumato.service.recorded import MOST_CALLS, is_shallow

_SIZES, _LARGEST = 20, 1_000_000
_LEAST_EPSILON, _MOST_EPSILON = 1e-6, 1e6


@dataclass(frozen=True)
class Field:
    """A field of a request's body.

    Args:
        form: what it must be, as the end of a sentence.
        schema: the same for machines.
        admits: whether a value is that.
        default: what stands for it where it is left out.
    """

    form: str
    schema: Mapping[str, Any]
    admits: Callable[[Any], bool]
    default: Any = None


def _is_confidence(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1


def _are_sizes(value: Any) -> bool:
    whole = isinstance(value, list) and all(type(one) is int and 1 <= one <= _LARGEST for one in value)
    return whole and len(value) <= _SIZES


def _are_epsilons(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= _SIZES
        and all(type(one) in (int, float) and _LEAST_EPSILON <= one <= _MOST_EPSILON for one in value)
    )


_SQL = Field(
    "a text: the question in SQL",
    {"type": "string"},
    lambda value: value is None or isinstance(value, str),
)
_CHAIN = Field(
    "an object in the place of sql: the question as Python asks it, calls of a chain (docs/serve.md)",
    {"$ref": "#/components/schemas/Chain"},
    lambda value: value is None or (isinstance(value, dict) and is_shallow(value)),
)
_OPTIONS = Field(
    "an object: beside chain, the options of release, such as epsilon and delta, as arguments of calls",
    {"type": "object", "default": {}},
    lambda value: isinstance(value, dict) and is_shallow(value),
    {},
)
_CONFIDENCE = Field(
    "a number between 0 and 1",
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95},
    _is_confidence,
    0.95,
)
_UNITS = Field(
    f"a list of at most {_SIZES} sizes of groups, whole numbers from 1 to {_LARGEST:,}",
    {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": _LARGEST},
        "maxItems": _SIZES,
        "default": [100, 1000, 10000],
    },
    _are_sizes,
    [100, 1000, 10000],
)
_EPSILONS = Field(
    f"a list of at most {_SIZES} budgets to compare, from {_LEAST_EPSILON:g} to {_MOST_EPSILON:,.0f}; "
    "with none, that of the question",
    {
        "type": "array",
        "items": {"type": "number", "minimum": _LEAST_EPSILON, "maximum": _MOST_EPSILON},
        "maxItems": _SIZES,
        "default": [],
    },
    _are_epsilons,
    [],
)
_FLAG = Field(
    "true or false", {"type": "boolean", "default": False}, lambda value: isinstance(value, bool), False
)
FIELDS: Mapping[str, Mapping[str, Field]] = {
    "ask": {
        "sql": _SQL,
        "chain": _CHAIN,
        "options": _OPTIONS,
        "confidence": _CONFIDENCE,
        "units": _UNITS,
        "epsilons": _EPSILONS,
        "dummy": _FLAG,
    },
    "release": {
        "sql": _SQL,
        "chain": _CHAIN,
        "options": _OPTIONS,
        "confidence": _CONFIDENCE,
        "simultaneous": _FLAG,
        "dummy": _FLAG,
    },
}
# Path, method, what it does, what comes of it, and whether anybody may.
PATHS: tuple[tuple[str, str, str, str, bool], ...] = (
    (
        "/v1/tables",
        "get",
        "List tables: columns, types, bounds, domains, limits, privacy units.",
        JSON,
        False,
    ),
    (
        "/v1/ask",
        "post",
        "Say what a question costs and which errors to expect; no row is read, nothing is spent. Where the "
        "same was answered before, repeats has the entry of the ledger: to ask it again costs nothing.",
        JSON,
        False,
    ),
    (
        "/v1/release",
        "post",
        "Answer by noisy numbers with error bars, and spend the cost; or give the answer to the same "
        "question before, for nothing, which the field repeats and the header sfumato-repeats say. The field "
        "metadata, and beside CSV the header sfumato-metadata, say what the numbers do not include.",
        JSON,
        False,
    ),
    ("/v1/budget", "get", "Say what is spent and what is left.", JSON, False),
    (
        "/v1/history",
        "get",
        "List what you asked and what it cost; /v1/answers gives the answer to an entry again.",
        JSON,
        False,
    ),
    (
        "/v1/answers/{entry}",
        "get",
        "Give again, for nothing, the answer to a question that you paid, by its entry in your history.",
        JSON,
        False,
    ),
    (
        "/v1/words",
        "get",
        "List what completes a question: functions, options, keywords; and words that names need quotes for.",
        JSON,
        True,
    ),
    ("/metrics", "get", "Counts for Prometheus, for owners.", "text/plain", False),
    ("/health", "get", "Say that the service is there.", JSON, True),
    ("/ready", "get", "Say whether questions can be paid: 503 names the ledger or the tokens.", JSON, True),
    ("/openapi.json", "get", "This document.", JSON, True),
)
_ERRORS = {
    "400": "The question or the request must be changed; the text says how.",
    "401": "No valid token.",
    "402": "Less of the budget is left than the question costs.",
    "403": "There is no safe answer, or the caller may not ask this.",
    "406": "None of the formats that Accept names.",
    "408": "The request did not arrive in time.",
    "404": "There is no such path, or no such answer of the caller's.",
    "409": "The same request, with this Idempotency-Key, is paid and has no answer yet.",
    "413": "The request is too long.",
    "415": "The body is no JSON.",
    "429": "Too many questions of the caller at once.",
    "500": "A fault of the service; x-request-id names it.",
    "503": "Tables cannot be read, or too many questions wait.",
    "504": "The question took too long; what it cost stays spent.",
}
_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "release": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Drawn anew for each question: the same request with the same key is paid once, and "
        "gets the same answer however often it is sent.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{16,128}$"},
    },
    "answers": {
        "name": "entry",
        "in": "path",
        "required": True,
        "description": "Of the ledger, as your history has it.",
        "schema": {"type": "integer", "minimum": 1},
    },
}
_ASKED: Mapping[str, Any] = {
    "type": "object",
    "required": ["cost", "remaining", "explanation", "notes", "repeats"],
    "properties": {
        "repeats": {
            "description": "The entry of the ledger whose answer would be given again, for nothing; or null.",
            "type": ["integer", "null"],
        }
    },
}


def _chain() -> dict[str, Any]:
    """Return the schema of a chain; of arguments, that they are of JSON."""
    name = {"type": "string"}
    methods = sorted({*OF_TABLES, *OF_PUBLIC, *OF_QUESTIONS})
    call = {
        "description": "A method, its arguments by place, and those by name.",
        "type": "array",
        "prefixItems": [{"enum": methods}, {"type": "array"}, {"type": "object"}],
        "items": False,
        "minItems": 3,
    }
    calls = {"type": "array", "maxItems": MOST_CALLS, "items": call}
    return {
        "description": "Calls of a table, one after the other. Arguments that are tables are chains; "
        'aggregates are {"asks": "mean", "args": ["age"], "named": {}}; other values as docs/serve.md says.',
        "type": "object",
        "properties": {"table": name, "public": name, "calls": calls},
        "oneOf": [{"required": ["table", "calls"]}, {"required": ["public", "calls"]}],
        "additionalProperties": False,
    }


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    error = {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "required": ["kind", "text"],
                "properties": {
                    "kind": {"type": "string", "enum": sorted(KINDS)},
                    "text": {"type": "string"},
                    "place": {
                        "description": "Of an SqlError, where one is: offsets in the text, in characters.",
                        "type": "array",
                        "items": {"type": "integer", "minimum": 0},
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sfumato",
            "version": __version__,
            "description": "Questions to tables of personal rows; answers are differentially private.",
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": error, "Chain": _chain()},
        },
        "paths": {path: {method: _operation(path)} for path, method, *_ in PATHS},
    }


def _operation(path: str) -> dict[str, Any]:
    summary, media, free = next(told[2:] for told in PATHS if told[0] == path)
    name = path.removeprefix("/v1").split("/")[1].partition(".")[0]
    of_error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    answers = [media, ARROW, CSV] if name in ("release", "answers") else [media]
    told: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "security": [] if free else [{"token": []}],
        "responses": {
            "200": {"description": "As asked.", "content": {one: {} for one in answers}},
        },
    }
    parameters = _PARAMETERS.get(name)
    if parameters is not None:
        told["parameters"] = [parameters]
    if name == "ask":
        told["responses"]["200"]["content"][media] = {"schema": _ASKED}
    if not free:
        told["responses"] |= {
            status: {"description": text, "content": of_error} for status, text in _ERRORS.items()
        }
    if name in FIELDS:
        fields = FIELDS[name]
        schema = {
            "type": "object",
            "oneOf": [{"required": ["sql"]}, {"required": ["chain"]}],
            "additionalProperties": False,
            "properties": {
                field: dict(one.schema) | {"description": one.form} for field, one in fields.items()
            },
        }
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return told
