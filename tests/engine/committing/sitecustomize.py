"""What Python runs first in each process of `chain_job.py`: a commit can be held at two points.

After it has written the head of a record: while <folder>/hold-recorded exists. Before it writes the
mark that all of it is shown: while <folder>/hold-shown exists. <folder>/held says that it waits.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

_link = os.link
_HEAD = re.compile(r".*/txn/s[0-9a-f]{32}-[0-9]{19}")
_MARK = re.compile(r".*/txn/s[0-9a-f]{32}-[0-9]{19}-[0-9a-f]{32}-m[0-9]{12}")


def _wait(target: str, name: str) -> None:
    folder = Path(target).parents[2]
    while (folder / name).exists():
        (folder / "held").touch()
        time.sleep(0.02)


def _held_link(source: Any, target: Any, **more: Any) -> None:
    if isinstance(target, str) and _MARK.fullmatch(target):
        _wait(target, "hold-shown")
    _link(source, target, **more)
    if isinstance(target, str) and _HEAD.fullmatch(target):
        _wait(target, "hold-recorded")


os.link = _held_link
