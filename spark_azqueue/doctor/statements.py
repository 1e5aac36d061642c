"""The pattern that hides secrets in the text of Spark's statements."""

from __future__ import annotations

from collections.abc import Callable

STATEMENTS = (
    # In any text: the secret parts of a connection string or a SAS.
    r"""(?im)\b(?:AccountKey|SharedAccessSignature)\s*=\s*[^;,)"'\\\s]+|\bsig=[^&;,)"'\\\s]+"""
    # An option and its value, in SQL or in Connect's text of a plan. For a value with a quote or a
    # backslash, the rest of the line is hidden, too, because the value is not parsed.
    r"""|(?:accountAccessKey|clientSecret|sasToken|connectionString|secret[.]\w+)(?:\\*["'`])?"""
    r"""\s*(?:value:|=|->|:)?\s*r?(\\*["'])[^"'\\]*(?:(?=\1\s*(?:[,)]|$))|.*)"""
)
"""For `spark.redaction.string.regex`: what Spark replaces by asterisks in statements and plans.

It is a regular expression for Java and for Python.
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
    """The options whose secrets remain in a statement after `hide` was applied."""
    return tuple(
        name
        for name, value in _VALUES
        if any(_VALUE in hide(shape.format(name=name, value=value)) for shape in _SHAPES)
    )
