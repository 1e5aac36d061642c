"""Hides secrets in texts that people read: errors, logs, Spark's statements, and texts from other
programs."""

from __future__ import annotations

import re

_IS = r"(?:=|%(?:25)*3D)"  # may be percent-encoded, once or several times
_SECRETS = re.compile(
    rf"(?P<sig>sig{_IS})[^&\s'\"]+"
    rf"|(?P<field>(?:Account|SharedAccess)(?:Key|Signature)[\"']?\s*(?:{_IS}|:)[=\s\"']*)[^;\s'\"]+"
    r"|(?P<token>\bBearer\s+)[\w.~+/-]{20,}=*"
    r"|(?P<signed>\bSharedKey(?:Lite)?\s+[^\s:]+:)[^\s'\"]+"
    # Each match ends before the next possible start of a match. Otherwise, for a text with many
    # possible starts, the time would grow with the square of the text's length.
    r"|(?P<jwt>\beyJ)(?:(?!-eyJ)[\w-]){8,}\.[\w.-]+"
    r"|(?P<key>)[0-9A-Za-z+/]{86}==",  # an account key without a field name
    re.IGNORECASE,
)
_CONNECTION_STRING = re.compile(
    r"\b(?:Account(?:Key|Name)|SharedAccess(?:Key|Signature)|DefaultEndpointsProtocol"
    r"|UseDevelopmentStorage|(?:Queue|Blob|Table|File)Endpoint)\s*=",
    re.IGNORECASE,
)
# A match ends before the next address, for the same reason
_LOGIN = re.compile(r"(://)(?:(?!://)[^\s'\"])*@")
_LONGEST_SECRET = 2_048


def hide_secrets(text: str) -> str:
    """Replace account keys, tokens, and the signatures of SAS tokens and requests with "…"."""
    return _SECRETS.sub(lambda found: f"{found[found.lastgroup or 0]}…", text)


def looks_like_connection_string(text: str) -> bool:
    """True if a text contains a field name of connection strings."""
    return _CONNECTION_STRING.search(text) is not None


def shown(text: object, most: int = 200, *, lines: bool = False) -> str:
    """Prepare a text from another program for an error or a log: one line of at most about `most`
    characters.

    Hides secrets, and logins in addresses. Escapes characters that are not printable. lines: True
    to keep line breaks and tabs.
    """
    whole = str(text)
    cut = escaped(_LOGIN.sub(r"\1…@", hide_secrets(whole[: most + _LONGEST_SECRET]))[:most], lines)
    return cut if len(whole) <= most else f"{cut}… ({len(whole):,} characters)"


def escaped(text: str, lines: bool = False) -> str:
    """Escape characters that are not printable, because a terminal could interpret them as
    commands.

    lines: True to keep line breaks and tabs.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )
