"""The only way to open a file in a folder that other users may write into."""

from __future__ import annotations

import errno
import os
import stat


def open_plain(path: str, flags: int) -> int:
    """Open a regular file and return its descriptor. Never blocks, and does not follow links.

    flags: flags of `os.open`. A new file is readable by this user only. Raises OSError if the path
    is a pipe, a device or a folder.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(number, "it is no file with contents", path)
