"""messageFormat=cloudevents: converts a row to an event of CloudEvents 1.0 in JSON.

Each attribute comes from the column of the same name. The data comes from `body`.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import datetime, timezone
from typing import NoReturn

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.redaction import shown

from .columns import EVENT_TYPES, Row, SinkColumns, value_of

Body = str | bytes | bytearray

_REQUIRED = ("id", "type", "source")
# RFC 3986, "URI reference": these characters, and "%" with two hexadecimal digits.
_URI = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+\Z")
# RFC 2045, "Content-Type": type/subtype, and parameters.
_TOKEN = r"[A-Za-z0-9!#$&^_.+\-%'*`|~]+"  # noqa: S105 (a token of the grammar)
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/({_TOKEN})(?:\s*;\s*{_TOKEN}=(?:{_TOKEN}|\"[^\"\\]*\"))*\Z")
# W3C, "Trace Context": version, trace id, parent id, flags. Later versions may add fields.
_TRACEPARENT = re.compile(
    r"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2}(?=.{53}(?:-[!-~]*)?\Z))"
    r"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
# CloudEvents, "Type System": characters that a string must not contain.
_NO_STRING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef]")
# XML cannot contain these characters. JSON allows them only in strings, so they can be escaped.
_NOT_XML = re.compile("[\ufffe\uffff]")
_BLANK = " \t\r\n"
_NAMED_AT_MOST = 80


def event_of(row: Row, columns: SinkColumns, body: Body) -> str:
    """Return the event of this row, as JSON.

    A string body becomes `data`. If the body is JSON, and `datacontenttype` is missing or a JSON
    type, the body is embedded as JSON; otherwise it is embedded as a string. A binary body becomes
    `data_base64`. Raises InvalidRow; the error names the column.
    """
    attributes = {"specversion": "1.0"}
    for name in EVENT_TYPES:
        value = value_of(row, getattr(columns, name))
        if value is None and name not in _REQUIRED:
            continue
        attributes[name] = _time(value) if isinstance(value, datetime) else _text(name, value)
    head = json.dumps(attributes, ensure_ascii=False)[:-1]
    return _NOT_XML.sub(_escaped, f"{head}, {_data(body, attributes.get('datacontenttype'))}}}")


def attributes_of(row: Row, columns: SinkColumns) -> dict[str, str | None]:
    """Return the attributes of a row that cannot be sent, for the report about the row.

    The attributes are not checked, and long values are cut.
    """
    found = {name: value_of(row, getattr(columns, name)) for name in EVENT_TYPES}
    return {name: None if v is None else str(v)[:400] for name, v in found.items()}


def _text(name: str, value: object) -> str:
    if not value:
        if name in _REQUIRED:
            missing = "null" if value is None else "empty"
            raise InvalidRow(f"its '{name}' is {missing}; an event needs one")
        raise InvalidRow(f"its '{name}' is empty; give it a value, or null")
    text = str(value)
    if bad := _NO_STRING.search(text):
        raise InvalidRow(
            f"its '{name}' holds the character U+{ord(bad[0]):04X}, which an attribute of an event"
            " must not hold"
        )
    expected, form = _FORMS.get(name, ("", None))
    if form and not form.match(text):
        raise InvalidRow(
            f"its '{name}' is {shown(repr(text), _NAMED_AT_MOST)}; expected {expected}"
        )
    return text


_FORMS: dict[str, tuple[str, re.Pattern[str]]] = {
    "source": ("a URI reference, such as '/shop/orders'", _URI),
    "datacontenttype": ("a media type, such as 'application/json'", _MEDIA_TYPE),
    "traceparent": ("W3C's form, 00-<32 hex digits>-<16 hex digits>-<2 hex digits>", _TRACEPARENT),
}


def _time(at: datetime) -> str:
    """Format a time by RFC 3339 in UTC. A time without a zone, as on Spark 4.0, is local time."""
    try:
        moment = at.astimezone(timezone.utc)
    except OverflowError:
        raise InvalidRow(f"its 'time' is {at.isoformat()}, which UTC cannot express") from None
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _data(body: Body, media_type: str | None) -> str:
    """Return the member of the JSON object that contains the body, without braces."""
    if not isinstance(body, str):
        return f'"data_base64": "{base64.b64encode(body).decode("ascii")}"'
    if _is_json(media_type) and (value := _json(body)) is not None:
        return f'"data": {value}'
    return f'"data": {json.dumps(body, ensure_ascii=False)}'


def _is_json(media_type: str | None) -> bool:
    if media_type is None:  # CloudEvents, "JSON Event Format": the same as application/json
        return True
    kind = media_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def _json(text: str) -> str | None:
    """Return the text unchanged if it is JSON, else None. Numbers keep their digits."""
    try:
        # Numbers are parsed as text, because Python refuses to convert very long numbers.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except ValueError:
        return None
    except RecursionError:
        raise InvalidRow("the body is JSON that is nested too deeply for an event") from None
    return text.strip(_BLANK)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
