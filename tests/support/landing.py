"""A container as a folder, and what Event Grid says of its files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

TRUSTED = "shopdata/landing"


@dataclass
class Landing:
    """Writes files, and makes their events. Each version of a file has an etag of its own."""

    folder: Path
    root: str = "https://shopdata.blob.core.windows.net/landing"
    container: str = "landing"
    etags: dict[str, str] = field(default_factory=dict)
    said: int = 0

    def write(self, path: str, data: str | bytes) -> str:
        """Write a file whole, and return its event."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = data.encode() if isinstance(data, str) else data
        unfinished = target.with_name(f".{target.name}.tmp")
        unfinished.write_bytes(data)
        unfinished.rename(target)
        self.etags[path] = f"0x8D{len(self.etags) + self.said:013X}"
        return self.event(path, size=len(data))

    def event(self, path: str, size: int = 0, **more: Any) -> str:
        """An event of this file as it is now; `more` replaces or adds what is in its data."""
        self.said += 1
        data = {
            "api": "PutBlob",
            "url": f"{self.root}/{quote(path)}",
            "eTag": self.etags.get(path, "0x1"),
            "contentLength": size,
            "sequencer": f"{self.said:032x}",
            **more,
        }
        return json.dumps(
            {
                "id": f"event-{self.said}",
                "topic": "/subscriptions/0/storageAccounts/shopdata",
                "subject": f"/blobServices/default/containers/{self.container}/blobs/{path}",
                "eventType": "Microsoft.Storage.BlobCreated",
                "eventTime": "2026-11-20T18:41:00Z",
                "data": data,
            }
        )
