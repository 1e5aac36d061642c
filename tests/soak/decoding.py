"""Options that decode, which change from life to life (--change-decoding), and what a row holds.

A body that does not decode is in the output with a mark before its text, and so it stays: in a life
without the column of texts, with the mark alone.
"""

from __future__ import annotations

import base64
import binascii
import random

NOT_DECODED = "?"
"""Before the text of a message that did not decode; no text begins with it."""

_PERMISSIVE = {"messageEncoding": "base64", "onUndecodable": "permissive"}
_WAYS = (
    {},
    {"bodyType": "binary"},
    {"messageEncoding": "auto"},
    {"messageEncoding": "auto", "bodyType": "binary"},
    _PERMISSIVE,
    {**_PERMISSIVE, "bodyType": "binary"},
)


def ways_of(seed: int, life: int) -> dict[str, str]:
    """How the program decodes in this life."""
    return dict(random.Random(f"{seed}/decoding/{life}").choice(_WAYS))


def sent_as(text: str, number: int) -> str:
    """Half of the senders put a text in base64."""
    return base64.b64encode(text.encode()).decode() if number % 2 else text


def is_body(body: str, text: str) -> bool:
    """True for a body that some life may make of this text."""
    try:
        plain = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        plain = text
    return body == NOT_DECODED or body.removeprefix(NOT_DECODED) in (text, plain)
