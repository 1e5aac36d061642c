"""Links that work outside of the repository: for the package index and notes of a release."""

from __future__ import annotations

import re

_PICTURES = (".png", ".svg", ".gif", ".jpg")
_CODE_OR_LINK = re.compile(
    r"^```.*?^```|`[^`\n]+`|\]\((?![a-z]+:|#)(?P<target>[^)\s]+)\)", re.DOTALL | re.MULTILINE
)


def relative_links(text: str) -> list[str]:
    """Where the links of a page lead that only the repository has."""
    return [found["target"] for found in _CODE_OR_LINK.finditer(text) if found["target"]]


def with_absolute_links(text: str, url: str, tag: str) -> str:
    """The text of a page with links to pages and pictures of this tag; code stays as it is."""

    def absolute(found: re.Match[str]) -> str:
        target = found["target"]
        if target is None:
            return found[0]
        kind = "raw" if target.endswith(_PICTURES) else "blob"
        return f"]({url}/{kind}/{tag}/{target})"

    return _CODE_OR_LINK.sub(absolute, text)
