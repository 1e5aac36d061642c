"""Parses the XML of an answer, if it is no larger than the service's.

A tree takes a hundred times the bytes of its tags, so 16 MiB of tags would take more memory than a
driver has.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

_ODD_TAG = re.compile(rb"<(?![!?])(?:[^<>]{500}|(?:[^<>=]*=){4})")
"""The service's tags are names, some with an attribute or two. (`<!` begins a text or a comment.)
An attribute takes more memory than a tag.
"""


def parsed(document: bytes, most_tags: int) -> ElementTree.Element | None:
    """The root of a document in UTF-8, whatever a declaration says. None if it is no XML, has a
    DOCTYPE (which can expand a small document into a huge one), more tags than that, or a tag that
    the service would not send.
    """
    if document.count(b"<") > most_tags or b"<!DOCTYPE" in document or _ODD_TAG.search(document):
        return None
    parser = ElementTree.XMLParser(encoding="utf-8")  # noqa: S314 (bounded above)
    try:
        return ElementTree.fromstring(document, parser)  # noqa: S314
    except ElementTree.ParseError:
        return None
