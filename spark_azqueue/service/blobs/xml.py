"""Parsers for the XML of the blob service: pages of a listing, and the settings of the account."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from email.utils import parsedate_to_datetime

from ..markup import parsed
from ..names import Stored

_START = re.compile(rb"(?:\xef\xbb\xbf)?<[?E]")  # UTF-16 is refused, because it may hide a DOCTYPE
_MOST_TAGS = 20_000
"""Maximum number of tags on a page. A page has 100 blobs with about 40 properties each."""


def blobs_in(document: bytes) -> tuple[list[Stored], str]:
    """Return the blobs of a page, with their full names, and the marker of the next page.

    Raises ValueError if the document is not a complete page of a listing.
    """
    root = parsed(document, _MOST_TAGS) if _START.match(document) else None
    if root is None:
        raise ValueError("it is not XML as the service writes it")
    listed, marker = root.find("Blobs"), root.find("NextMarker")
    if root.tag != "EnumerationResults" or listed is None or marker is None:
        raise ValueError("it is not a page of a list of blobs")
    if any(blob.tag != "BlobPrefix" and not blob.findtext("Name") for blob in listed):
        raise ValueError("it lists a blob without a name")
    return [_stored(blob) for blob in listed if blob.tag != "BlobPrefix"], marker.text or ""


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


def kept_days(document: bytes) -> int:
    """Return the number of days for which soft delete keeps a deleted blob, or 0 if soft delete is
    off.

    Raises ValueError if the document does not contain the settings of an account.
    """
    root = parsed(document, _MOST_TAGS)
    if root is None or root.tag != "StorageServiceProperties":
        raise ValueError("they are not the settings of an account")
    if root.findtext("DeleteRetentionPolicy/Enabled") != "true":
        return 0
    days = root.findtext("DeleteRetentionPolicy/Days") or ""
    if not (days.isascii() and days.isdigit() and len(days) < 9):
        raise ValueError("soft delete is on for no number of days")
    return int(days)
