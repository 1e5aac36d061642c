"""What Python runs first in each process of `queries_job.py`: the look at a claim can be held.

Opening a file in <query's folder>/wal/claims (of an IngestJob: log/claims) waits while <query's
folder>/hold-claim exists. The source does so after each put of a segment, before Spark hears of it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

_open = os.open


def _held_open(path: Any, *args: Any, **more: Any) -> int:
    if isinstance(path, str) and ("/wal/claims/" in path or "/log/claims/" in path):
        while (Path(path).parents[2] / "hold-claim").exists():
            time.sleep(0.02)
    return _open(path, *args, **more)


os.open = _held_open
