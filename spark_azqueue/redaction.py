"""Keeps secrets out of texts: what we log, and what Spark writes of statements.

Ring: core (standard library only).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

_SECRET = re.compile(r"(sig=)[^&\s'\"]+", re.IGNORECASE)

STATEMENTS = (
    # In any text: the parts of a connection string or a SAS that are secret.
    r"""(?im)\b(?:AccountKey|SharedAccessSignature)\s*=\s*[^;,)"'\\\s]+|\bsig=[^&;,)"'\\\s]+"""
    # An option and its value, as SQL or as Connect's text of a plan. A value with a quote or a
    # backslash in it takes the rest of its line with it, for it is not parsed further.
    r"""|(?:accountAccessKey|clientSecret|sasToken|connectionString|secret[.]\w+)(?:\\*["'`])?"""
    r"""\s*(?:value:|=|->|:)?\s*r?(\\*["'])[^"'\\]*(?:(?=\1\s*(?:[,)]|$))|.*)"""
)
"""For `spark.redaction.string.regex`: what Spark replaces by asterisks in statements and plans.

It is a regular expression of Java and of Python alike.
"""

_VALUE = "c2VjcmV0"
_VALUES = (
    ("accountAccessKey", _VALUE),
    ("clientSecret", _VALUE),
    ("sasToken", f"sv=2021-12-02&sp=raup&sig={_VALUE}"),
    ("secret.connectionString", f"AccountName=shop;AccountKey={_VALUE};EndpointSuffix=e.net"),
    ("connectionString", f"QueueEndpoint=https://q;SharedAccessSignature=sp=p&sig={_VALUE}"),
    ("secret.blobConnectionString", f"AccountName=shop;AccountKey={_VALUE}"),
)
_SHAPES = (
    'options {{\n  key: "{name}"\n  value: "{value}"\n}}\n',
    "query: \"OPTIONS (`{name}` \\'{value}\\', queue \\'orders\\')\"",
)


def shown_through(hide: Callable[[str], str]) -> tuple[str, ...]:
    """Names of options whose secret is still there after `hide` has dealt with a statement."""
    return tuple(
        name
        for name, value in _VALUES
        if any(_VALUE in hide(shape.format(name=name, value=value)) for shape in _SHAPES)
    )


def hide_signatures(text: str) -> str:
    """Take the signature of a SAS out of a text meant for people."""
    return _SECRET.sub(r"\1…", text)


class _HideSignatures(logging.Filter):
    """urllib3 logs every URL at debug level (and odd answers' at any), and a SAS is part of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "sig=" in message.lower():
            record.msg, record.args = hide_signatures(message), ()
        return True


def hide_signatures_in_logs() -> None:
    """Keep signatures out of what urllib3, which is below Azure's SDK, logs. Repeatable."""
    for name in ("urllib3.connectionpool", "urllib3.connection"):
        log = logging.getLogger(name)
        if not any(isinstance(known, _HideSignatures) for known in log.filters):
            log.addFilter(_HideSignatures())
