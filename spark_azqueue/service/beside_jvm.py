"""Files in the temporary folder that the processes beside one JVM share.

The user's Python process and the processes of sources run beside the driver's JVM, on one machine
and for one user. A file's name says the user and the JVM. Everyone may write into the folder, so a
file counts only if it is a plain file of this user, and opening one never waits.
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
    """Path of the file of this JVM with this ending, such as ".json". It may not exist."""
    name = f"spark-azqueue-{os.getuid()}-{pid}-{_start_of(pid)}{ending}"
    return Path(tempfile.gettempdir()) / name


def open_own(file: Path, flags: int) -> int:
    """Open a file and return its descriptor. Never waits, and follows no link.

    flags: as of `os.open`. Raises OSError also if it is no plain file, or belongs to another user.
    """
    descriptor = open_plain(str(file), flags)
    if os.fstat(descriptor).st_uid != os.getuid():
        os.close(descriptor)
        raise PermissionError(f"{file} belongs to another user")
    return descriptor


def files_of_ended(ending: str) -> list[Path]:
    """Files of this user with this ending whose JVM has ended."""
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
    """When this process began, in the kernel's ticks; "" if the system does not say."""
    with contextlib.suppress(OSError, IndexError, UnicodeDecodeError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19]
    return ""
