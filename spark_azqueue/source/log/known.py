"""Fingerprints of texts: the same in every process, so that a restart recognises a message."""

from __future__ import annotations

import hashlib


def fingerprint(text: str) -> int:
    """64 bits that tell a message's text from an updated one. Never shown, never used as a key."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
