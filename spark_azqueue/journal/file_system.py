"""Basic operations on files and folders, for logs. Functions raise OSError, unless their docstring
says otherwise."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator

from spark_azqueue.service.plain_files import open_plain

TMP = ".tmp-"
_TEMPORARY = re.compile(re.escape(TMP) + "[0-9a-f]{32}")
"""Pattern of the names of files that are not complete yet."""


def temporary_name(folder: str) -> str:
    """Return an unused path in this folder."""
    return os.path.join(folder, TMP + uuid.uuid4().hex)


def symbol(error: OSError) -> str:
    """Return the symbolic name of the error, such as ENOSPC."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def make_folder(path: str) -> None:
    """Create a folder that only the current user can access, and sync its parent. Succeeds if the
    folder exists."""
    with contextlib.suppress(FileExistsError):  # another process has created the folder
        os.mkdir(path, 0o700)
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    sync_folder(os.path.dirname(path))


def write_new(path: str, data: bytes) -> None:
    """Write a new file, and sync it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def check_real(folder: str) -> None:
    """Raise OSError if this folder is a symbolic link. Succeeds if the folder is missing."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(os.lstat(folder).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder)


def read_start(path: str, most: int) -> bytes:
    """Read at most the first `most` bytes of a file.

    Never blocks: raises OSError for a pipe or a device.
    """
    with open(open_plain(path, os.O_RDONLY), "rb", buffering=0) as file:
        parts = []
        while most > 0 and (part := file.read(most)):
            parts.append(part)
            most -= len(part)
    return b"".join(parts)


def names_in(path: str) -> Iterator[str]:
    """Yield the names in a folder, in any order."""
    with os.scandir(path) as entries:
        for entry in entries:
            yield entry.name


def sync_folder(path: str) -> None:
    """Sync a folder, so that the names of its files are durable."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def _held(folder: str) -> Iterator[int]:
    """Open a folder as a descriptor. The descriptor stays valid if the folder is renamed or
    replaced.

    Raises OSError for a symbolic link.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def unlink(path: str) -> None:
    """Remove a file, unless its folder is a symbolic link. Raises OSError."""
    folder, name = os.path.split(path)
    with _held(folder) as held:
        os.unlink(name, dir_fd=held)


def sweep(folder: str, before: float) -> None:
    """Remove the temporary files in a folder that were last written before a time.

    before: this time, in seconds since 1970. A file that cannot be removed is skipped.
    """
    with _held(folder) as held, os.scandir(held) as entries:
        for entry in entries:
            is_old = entry.stat(follow_symlinks=False).st_mtime <= before
            if _TEMPORARY.fullmatch(entry.name) and is_old:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=held)


def remove(path: str) -> None:
    """Remove a file. Errors are ignored."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def refresh(folder: str) -> None:
    """Make an NFS client discard its cache of this folder, by changing the folder. Errors are
    ignored.

    Without this call, the client may return a listing, or say that a file does not exist, from a
    cache that is up to a minute old.
    """
    path = temporary_name(folder)
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    remove(path)
