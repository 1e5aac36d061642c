"""Searches what a run left behind, for secrets."""

from __future__ import annotations

from pathlib import Path


def holders(folder: Path, text: str) -> list[str]:
    """Files below a folder that hold this text, by their path in it."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]
