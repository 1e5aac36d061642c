"""Parser for the XML of an answer, with limits on its tags.

A parsed tree takes a hundred times as much memory as the text of its tags. So 16 MiB of tags would
take more memory than a driver has.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

_ODD_TAG = re.compile(rb"<(?![!?])(?:[^<>]{500}|(?:[^<>=]*=){4})")
"""Pattern for a tag that the service does not send: a long tag, or a tag with many attributes.

`<!` begins a text or a comment, and does not match. Attributes are limited because an attribute
takes more memory than a tag.
"""


def parsed(document: bytes, most_tags: int) -> ElementTree.Element | None:
    """Return the root of a UTF-8 document, or None if the document must not be parsed.

    The encoding that the document declares is ignored. Returns None if the document is not XML, has
    a DOCTYPE (which can expand a small document into a huge one), more than `most_tags` tags, or a
    tag that the service would not send.
    """
    if document.count(b"<") > most_tags or b"<!DOCTYPE" in document or _ODD_TAG.search(document):
        return None
    parser = ElementTree.XMLParser(encoding="utf-8")  # noqa: S314 (bounded above)
    try:
        return ElementTree.fromstring(document, parser)  # noqa: S314
    except ElementTree.ParseError:
        return None
