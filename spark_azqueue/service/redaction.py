"""Hides secrets in texts for people: errors, logs, Spark's statements, text from outside."""

from __future__ import annotations

import re

_SECRET = re.compile(r"(sig=)[^&\s'\"]+", re.IGNORECASE)
_LOGIN = re.compile(r"(://)[^\s'\"]*@")
_LONGEST_SECRET = 2_048


def hide_signatures(text: str) -> str:
    """Replace the signatures of SAS tokens in a text with "…"."""
    return _SECRET.sub(r"\1…", text)


def shown(text: object, most: int = 200, *, lines: bool = False) -> str:
    """Make a text from outside fit for an error or a log: one line, about `most` characters.

    Hides signatures, and logins in addresses. Escapes characters that are not printable; `lines`
    keeps line breaks and tabs.
    """
    whole = str(text)
    cut = _LOGIN.sub(r"\1…@", hide_signatures(whole[: most + _LONGEST_SECRET]))[:most]
    if not cut.isprintable():
        kept = "\n\t" if lines else ""
        cut = "".join(c if c.isprintable() or c in kept else _escape(c) for c in cut)
    return cut if len(whole) <= most else f"{cut}… ({len(whole):,} characters)"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
