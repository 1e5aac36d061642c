"""Keeps secrets out of texts: of our logs, of Spark's statements, of what comes from outside.

Ring: core (standard library only).
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SECRET = re.compile(r"(sig=)[^&\s'\"]+", re.IGNORECASE)
_LOGIN = re.compile(r"(://)[^\s'\"]*@")
_LONGEST_SECRET = 2_048

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


def shown(text: object, most: int = 200, *, lines: bool = False) -> str:
    """A text from outside, fit for an error or a log: one line of at most about `most` characters.

    Signatures and logins in addresses are hidden. What is not printable is written as an escape;
    `lines` keeps line breaks and tabs.
    """
    whole = str(text)
    cut = _LOGIN.sub(r"\1…@", hide_signatures(whole[: most + _LONGEST_SECRET]))[:most]
    if not cut.isprintable():
        kept = "\n\t" if lines else ""
        cut = "".join(c if c.isprintable() or c in kept else _escape(c) for c in cut)
    return cut if len(whole) <= most else f"{cut}… ({len(whole):,} characters)"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
