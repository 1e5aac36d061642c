"""Lock of a `load()`: at most one source process may read for this `load()`.

Spark starts two source processes for one DataFrame if a query joins the DataFrame with itself, or
if the DataFrame is started twice. Both processes would lease and delete messages of the same queue,
so each would get only some of the messages. So before a source process leases messages, it locks a
file in the temporary folder. The file has the name of the `load()`. The operating system releases
the lock when the process ends, even after a crash.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spark_azqueue.errors import LoadConflict
from spark_azqueue.service.beside_jvm import open_own

try:
    import fcntl
except ImportError:  # missing on Windows, where no lock is taken
    fcntl = None  # type: ignore[assignment]

_WAIT_S = 15.0
"""Longest wait for the lock, in seconds. A process that stops keeps the lock for some seconds,
until its deletes are done."""

_LOOK_EVERY_S = 0.1

_PREFIX = "spark-azqueue-load-"

_held: dict[Path, int] = {}
"""Descriptors of the locked files, which stay open until `leave` or the end of the process."""


def take(load: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Lock this `load()` for this process. Waits up to 15 s for the lock, because the other process
    may be stopping.

    The call may be repeated. Does nothing if the system or the temporary folder does not support
    locks. Raises LoadConflict if another process reads for this `load()`.

    load: a unique name of this `load()`.
    """
    file = _file(load)
    if fcntl is None or file in _held:
        return
    waited = 0.0
    with contextlib.suppress(OSError):
        while (descriptor := _locked(file)) is None:
            if waited >= _WAIT_S:
                raise LoadConflict(
                    "another reader of the same load() is running: this query joins the stream"
                    " with itself, or the DataFrame was started a second time. Each reader would"
                    " receive, and delete, a part of the messages, so this one has read nothing."
                    " Call load() again for a second query on the queue. To join a stream with"
                    " itself, write it to a table first, and join streams of that table"
                )
            sleep(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S
        _held[file] = descriptor
        _sweep(file.parent)


def leave(load: str) -> None:
    """Release the lock and remove the locked file. Call this after the last request."""
    file = _file(load)
    if (descriptor := _held.pop(file, None)) is not None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        os.close(descriptor)


def _file(load: str) -> Path:
    # The name does not contain the id of the parent process, which may be a wrapper and not the
    # JVM.
    return Path(tempfile.gettempdir()) / f"{_PREFIX}{load}.lock"


def _sweep(folder: Path) -> None:
    """Remove the lock files of killed processes."""
    for file in folder.glob(f"{_PREFIX}*.lock"):
        if file not in _held:
            with contextlib.suppress(OSError):
                if (descriptor := _locked(file)) is not None:
                    file.unlink(missing_ok=True)
                    os.close(descriptor)


def _locked(file: Path) -> int | None:
    """Lock a file. Return its descriptor, or None if another process has the lock.

    Raises OSError.
    """
    descriptor = open_own(file, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(file)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):  # or another process removed the file
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
