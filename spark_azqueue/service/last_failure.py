"""Passes the last error of a query from `run_until_done` to the next process of the source.

Spark does not report to a source why its batch failed. So `run_until_done` writes the error to a
file beside the driver's JVM (`beside_jvm.py`). If the source's next process dead-letters a message,
it adds the error to the reason. The process that wrote the file removes the file when it exits. If
this fails, the next process that stores an error removes the file. With Spark Connect, or if one of
these steps fails, the reason lacks the error.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .beside_jvm import file_of, files_of_ended, open_own
from .redaction import shown

_ENDING = ".json"
_AT_MOST = 65_536
_ERROR_AT_MOST = 500
_KEPT = 16
_OFFSET = re.compile(r'"(?:segment|nonce|leases)": ?"([0-9A-Za-z+/=]{16,64})')
"""Pattern for the part of an offset that no other offset has. Its key depends on the kind of
offset.
"""


def leave(error: str, text: str) -> None:
    """Store the error of this JVM's failed batch. Never raises.

    text: Spark's message of the failure, which contains the offsets of the batch.
    """
    with contextlib.suppress(Exception):
        pid = _jvm()
        offsets = sorted(set(_OFFSET.findall(text)))[:_KEPT]
        if pid is None or not offsets:
            return
        file = file_of(pid, _ENDING)
        kept = {**_read(file), **dict.fromkeys(offsets, shown(error, _ERROR_AT_MOST))}
        data = json.dumps(dict([*kept.items()][-_KEPT:])).encode()
        for old in [file, *files_of_ended(_ENDING)]:
            old.unlink(missing_ok=True)
        with os.fdopen(open_own(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as opened:
            opened.write(data)
        atexit.unregister(_remove)
        atexit.register(_remove, file)


def found(offset: Mapping[str, Any] | str, pid: int | None = None) -> str:
    """Return the stored error of the batch with this offset, or "" if no error is stored. Never
    raises.

    pid: process id of the JVM; by default the parent of this process.
    """
    with contextlib.suppress(Exception):
        text = offset if isinstance(offset, str) else json.dumps(offset, separators=(",", ":"))
        kept = _read(file_of(os.getppid() if pid is None else pid, _ENDING))
        return next((kept[each] for each in _OFFSET.findall(text) if each in kept), "")
    return ""


def _jvm() -> int | None:
    """Return the process id of the active Spark session's JVM, or None if there is no session."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    jvm = getattr(context, "_jvm", None)
    return None if jvm is None else int(jvm.java.lang.ProcessHandle.current().pid())


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, str]:
    """Read the stored errors. Large files, files of another user, and values that are not strings
    are ignored.
    """
    try:
        handle = open_own(file, os.O_RDONLY)
    except OSError:
        return {}
    with os.fdopen(handle, "rb") as opened:
        data = opened.read(_AT_MOST + 1)
    value = json.loads(data) if len(data) <= _AT_MOST else None
    if not isinstance(value, dict):
        return {}
    return {
        name: shown(each, _ERROR_AT_MOST) for name, each in value.items() if isinstance(each, str)
    }
