"""Keeps secrets out of texts: of our logs, of Spark's statements, of what comes from outside."""

from __future__ import annotations

import re

_SECRET = re.compile(r"(sig=)[^&\s'\"]+", re.IGNORECASE)
_LOGIN = re.compile(r"(://)[^\s'\"]*@")
_LONGEST_SECRET = 2_048


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
