"""A page of a container's list: what is in it, and that it is one.

The SDK takes almost any document for a page without names. But a list without names means that the
write-ahead log is empty, so a proxy's page must not look like one.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from email.utils import parsedate_to_datetime

from ..markup import parsed
from ..names import Stored

_START = re.compile(rb"(?:\xef\xbb\xbf)?<[?E]")  # not in UTF-16, which may hide a DOCTYPE


_MOST_TAGS = 20_000
"""Of 100 blobs, with some 40 properties each."""


def blobs_in(document: bytes) -> list[Stored]:
    """The blobs of a page, by their whole names.

    Raises ValueError if this is not a whole page as the service sends it.
    """
    root = parsed(document, _MOST_TAGS) if _START.match(document) else None
    if root is None:
        raise ValueError("it is not XML as the service writes it")
    listed, marker = root.find("Blobs"), root.find("NextMarker")
    if root.tag != "EnumerationResults" or listed is None or marker is None:
        raise ValueError("it is not a page of a list of blobs")
    if any(blob.tag != "BlobPrefix" and not blob.findtext("Name") for blob in listed):
        raise ValueError("it lists a blob without a name")
    return [_stored(blob) for blob in listed if blob.tag != "BlobPrefix"]


def _stored(blob: ElementTree.Element) -> Stored:
    def text(name: str) -> str:
        return blob.findtext(f"Properties/{name}") or ""

    size = text("Content-Length")
    try:
        written = parsedate_to_datetime(text("Last-Modified")).timestamp()
    except (ValueError, TypeError):
        written = 0.0
    return Stored(
        blob.findtext("Name") or "",
        int(size) if size.isascii() and size.isdigit() and len(size) < 20 else 0,
        written,
        "" if text("AccessTierInferred") == "true" else text("AccessTier"),
    )
