"""The pattern that hides secrets in the text of Spark's statements."""

from __future__ import annotations

from collections.abc import Callable

STATEMENTS = (
    # In any text: the secret parts of a connection string or a SAS, and an account key by itself.
    r"""(?i)\b(?:AccountKey|SharedAccess(?:Key|Signature))\s*"""
    r"""(?:=[=\s]*[^=;,)"'\\\s][^;,)"'\\\s]*|[=\\][\s\S]*)"""
    r"""|(?:\b|%3F|%26)sig(?:=|%3D)[^&;,)"'\\\s]+|[0-9A-Za-z+/]{86}=="""
    # An option and its value, in SQL or in Connect's text of a plan. If they do not stand together
    # in a form that is known here, the rest of the text is hidden: the value is in it somewhere.
    r"""|(?:accountAccessKey|clientSecret|sasToken|connectionString|secret[.]\w+)"""
    r"""(?!\w|=\*+\(redacted\))"""
    r"""(?:(?:\\*["'`])?\s*(?:value:|=|->|:)?\s*r?(\\*["'])[^"'\\]*"""
    r"""(?=\1\s*(?:[,)}]|(?![\s\S])))|[\s\S]*)"""
)
"""For `spark.redaction.string.regex`: what Spark replaces by asterisks in statements and plans.

It is a regular expression for Java and for Python.
"""

_VALUE = "c2VjcmV0"
_KEY = f"{_VALUE}{'A' * 78}=="  # as long as an account key

_VALUES = (
    ("accountAccessKey", _VALUE),
    ("clientSecret", _VALUE),
    ("sasToken", f"sv=2021-12-02&sp=raup&sig={_VALUE}"),
    ("secret.connectionString", f"AccountName=shop;AccountKey={_VALUE};EndpointSuffix=e.net"),
    ("connectionString", f"QueueEndpoint=https://q;SharedAccessSignature=sp=p&sig={_VALUE}"),
    ("secret.blobConnectionString", f"AccountName=shop;AccountKey={_VALUE}"),
    # A secret in an option that is none.
    ("accountUrl", _KEY),
    ("queue", f"AccountName=shop;AccountKey={_VALUE}"),
)

_BY_NAME_ALONE = ("accountAccessKey", "clientSecret")
"""Nothing in their values says what they are."""

_BETWEEN = (
    *(" ", "\t", "\n", "\r\n", "=", " == ", "\t=\n", "  ->  ", "\f"),
    *(" /* a comment */ ", "/*'*/", " -- it's a comment\n", " = -- , 'a'\n", "/**/=/**/"),
)
"""What may stand between an option and its value in a statement."""

_USUAL_SHAPES = (
    'options {{\n  key: "{name}"\n  value: "{value}"\n}}\n',
    "query: \"OPTIONS (`{name}` \\'{value}\\', queue \\'orders\\')\"",
)

_OTHER_SHAPES = (
    *(f"OPTIONS (`{{name}}`{between}'{{value}}', queue 'orders')" for between in _BETWEEN),
    *(f'OPTIONS ({{name}}{between}"{{value}}")' for between in _BETWEEN),
    # The same as Connect writes it, in which a tab is a backslash and a letter.
    *(
        f"query: \"OPTIONS (`{{name}}`{written}\\'{{value}}\\')\""
        for between in _BETWEEN
        if (written := between.encode("unicode_escape").decode().replace("'", "\\'")) != between
    ),
    "OPTIONS ({name} 'a' '{value}')",  # which are one text
    "OPTIONS ({name} 'a'\n'{value}')",
)


def shown_through(hide: Callable[[str], str]) -> tuple[str, ...]:
    """The options whose secrets remain in a statement after `hide` was applied."""
    return tuple(
        name
        for name, value in _VALUES
        if any(_VALUE in hide(shape.format(name=name, value=value)) for shape in _shapes(name))
    )


def _shapes(name: str) -> tuple[str, ...]:
    """The forms to try for an option. A server takes its time for each, so not all for all."""
    return _USUAL_SHAPES + (_OTHER_SHAPES if name in _BY_NAME_ALONE else ())
