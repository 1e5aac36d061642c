"""The last error of a query's code, handed from `run_until_done` to the process that isolates.

Spark tells a source nothing of why its batch failed. Both processes run beside the driver's JVM, on
one machine and for one user. So the supervisor leaves the error in a file of the temporary folder,
named by the JVM, and the source's next process reads it for the reason of a dead letter. With Spark
Connect, and if anything is in the way, the reason is without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .redaction import shown

_AT_MOST = 65_536
_ERROR_AT_MOST = 500
_KEPT = 16
_OFFSET = re.compile(r'"(?:segment|nonce|leases)": ?"([0-9A-Za-z+/=]{16,64})')
"""What no two offsets have alike: of a log, of a plan, and of leases."""


def leave(error: str, text: str) -> None:
    """Tell what the failed batch of this JVM raised. Never raises.

    text: of the failure, with the offsets of the batch.
    """
    with contextlib.suppress(Exception):
        pid = _jvm()
        offsets = sorted(set(_OFFSET.findall(text)))[:_KEPT]
        if pid is None or not offsets:
            return
        file = _file(pid)
        kept = {**_read(file), **dict.fromkeys(offsets, shown(error, _ERROR_AT_MOST))}
        data = json.dumps(dict([*kept.items()][-_KEPT:])).encode()
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
            opened.write(data)


def found(offset: Mapping[str, Any] | str, pid: int | None = None) -> str:
    """What the batch of this offset raised, "" if nothing is known. Never raises.

    pid: of the JVM; by default the process that started this one.
    """
    with contextlib.suppress(Exception):
        text = offset if isinstance(offset, str) else json.dumps(offset, separators=(",", ":"))
        kept = _read(_file(os.getppid() if pid is None else pid))
        return next((kept[each] for each in _OFFSET.findall(text) if each in kept), "")
    return ""


def _jvm() -> int | None:
    """The process of the JVM behind the active Spark session, None if there is none."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    jvm = getattr(context, "_jvm", None)
    return None if jvm is None else int(jvm.java.lang.ProcessHandle.current().pid())


def _file(pid: int) -> Path:
    return Path(tempfile.gettempdir()) / f"spark-azqueue-{os.getuid()}-{pid}.json"


def _read(file: Path) -> dict[str, str]:
    """Only a plain file of this user counts, and only texts in it."""
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return {}
    with os.fdopen(handle, "rb") as opened:
        about = os.fstat(opened.fileno())
        is_ours = about.st_uid == os.getuid() and stat.S_ISREG(about.st_mode)
        if not is_ours or about.st_size > _AT_MOST:
            return {}
        value = json.loads(opened.read(_AT_MOST))
    if not isinstance(value, dict):
        return {}
    return {
        name: shown(each, _ERROR_AT_MOST) for name, each in value.items() if isinstance(each, str)
    }
