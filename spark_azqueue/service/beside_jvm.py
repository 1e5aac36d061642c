"""Files in the temporary folder, which the Python processes beside one JVM share.

The user's Python process and the processes of sources run beside the driver's JVM, on the same
machine and as the same user. The name of a file contains the user's id and the JVM's process id.
Other users may also write into the temporary folder. So this module uses only regular files of this
user, and opening a file never blocks.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from .plain_files import open_plain

_NAME = re.compile(r"spark-azqueue-(\d+)-(\d+)-(\d*)\.[a-z]+")


def file_of(pid: int, ending: str) -> Path:
    """Return the path of the file with this extension, such as ".json", for this JVM. pid: process
    id of the JVM.

    The file may not exist.
    """
    name = f"spark-azqueue-{os.getuid()}-{pid}-{_start_of(pid)}{ending}"
    return Path(tempfile.gettempdir()) / name


def open_own(file: Path, flags: int) -> int:
    """Open a file and return its descriptor. Never blocks, and does not follow links.

    flags: flags of `os.open`. Raises OSError if the file is not a regular file of this user.
    """
    descriptor = open_plain(str(file), flags)
    if os.fstat(descriptor).st_uid != os.getuid():
        os.close(descriptor)
        raise PermissionError(f"{file} belongs to another user")
    return descriptor


def files_of_ended(ending: str) -> list[Path]:
    """Return this user's files with this extension, if the JVM of the file has exited."""
    ended = []
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is None or not entry.name.endswith(ending) or match[1] != str(os.getuid()):
                continue
            if not _exists(int(match[2])) or _start_of(int(match[2])) != match[3]:
                ended.append(Path(entry.path))
    return ended


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _start_of(pid: int) -> str:
    """Return the start time of a process in kernel ticks; "" if the system does not report it."""
    with contextlib.suppress(OSError, IndexError, UnicodeDecodeError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19]
    return ""
