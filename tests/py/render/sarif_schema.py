"""The part of SARIF 2.1.0 that is written here, as a schema of our own.

From the OASIS standard's text (sections 3.13 to 3.58): names, types, what is required, and what
GitHub's code scanning asks for on top: a physicalLocation in each result. Nothing else may appear.
"""

from typing import Any, Final


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], *, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


_TEXT: Final = {"type": "string", "minLength": 1}
_LEVEL: Final = {"enum": ["none", "note", "warning", "error"]}
_MESSAGE: Final = _object(("text",), text=_TEXT)
_PROPERTIES: Final = {"type": "object"}
_COUNT: Final = {"type": "integer", "minimum": 1}
_URI: Final = {
    "type": "string",
    # RFC 3986: no space, quote, bracket or control character; a percent sign begins a code
    "pattern": r"^(?:[A-Za-z0-9\-._~/:@!$&'()*+,;=]|%[0-9A-F]{2})+$",
}
_PHYSICAL: Final = _object(
    ("artifactLocation", "region"),
    artifactLocation=_object(("uri",), uri=_URI, uriBaseId={"const": "%SRCROOT%"}),
    region=_object(("startLine",), startLine=_COUNT, startColumn=_COUNT),
)
_LOCATION: Final = _object(
    ("physicalLocation",),
    physicalLocation=_PHYSICAL,
    logicalLocations=_list(
        _object(("fullyQualifiedName",), fullyQualifiedName=_TEXT, kind={"const": "function"})
    ),
    message=_MESSAGE,
)
_STEP: Final = _object(
    ("location",),
    location=_LOCATION,
    executionOrder=_COUNT,
    importance={"enum": ["important", "essential", "unimportant"]},
    nestingLevel={"type": "integer", "minimum": 0},
)
_RESULT: Final = _object(
    ("ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"),
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_list(_LOCATION, least=1),
    occurrenceCount=_COUNT,
    partialFingerprints={
        "type": "object",
        "required": ["primaryLocationLineHash"],
        "additionalProperties": _TEXT,
    },
    codeFlows=_list(
        _object(
            ("threadFlows",),
            threadFlows=_list(_object(("locations",), locations=_list(_STEP, least=1)), least=1),
        )
    ),
    properties=_PROPERTIES,
)
_RULE: Final = _object(
    ("id", "shortDescription", "help", "defaultConfiguration", "properties"),
    id=_TEXT,
    name={"type": "string", "pattern": r"^\S+$"},
    shortDescription=_MESSAGE,
    fullDescription=_MESSAGE,
    help=_MESSAGE,
    defaultConfiguration=_object(("level",), level=_LEVEL),
    properties=_object(
        ("tags", "security-severity"),
        **{
            "tags": {**_list(_TEXT), "uniqueItems": True, "maxItems": 20},
            "security-severity": {"type": "string", "pattern": r"^\d{1,2}\.\d$"},
            "precision": {"enum": ["very-high", "high", "medium", "low"]},
        },
    ),
)
_RUN: Final = _object(
    ("tool", "results"),
    tool=_object(
        ("driver",),
        driver=_object(("name", "rules"), name=_TEXT, semanticVersion=_TEXT, rules=_list(_RULE)),
    ),
    automationDetails=_object(("id",), id=_TEXT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations=_list(
        _object(
            ("executionSuccessful",),
            executionSuccessful={"type": "boolean"},
            toolExecutionNotifications=_list(_object(("message",), message=_MESSAGE, level=_LEVEL)),
        )
    ),
    results=_list(_RESULT),
)
SCHEMA: Final = _object(
    ("version", "runs"),
    **{"$schema": _URI, "version": {"const": "2.1.0"}, "runs": _list(_RUN, least=1)},
)
