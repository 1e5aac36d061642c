"""Store for a log in a folder of a file system, on a disk or on NFS.

A file gets its final name by link(), which fails if the name exists. So an object is complete when
it appears, and if two processes write the same object, only one of them creates it. File systems
without link() are refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator

from spark_azqueue.errors import LogUnavailable
from spark_azqueue.service.names import (
    MOST_NAMES,
    WRITE_AHEAD,
    Kind,
    Stored,
    checked_folder,
    checked_object,
    is_listed,
)

from .codec import LATEST
from .file_system import (
    check_real,
    make_folder,
    names_in,
    read_start,
    refresh,
    remove,
    sweep,
    symbol,
    sync_folder,
    temporary_name,
    unlink,
    write_new,
)
from .refusals import failed_call, too_many_names, without_links

# Errors of link() in file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
# After other errors, such as an I/O error or a server that does not answer, link() may have created
# the file.
_LINK_REFUSED = _NO_LINKS | {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES),
    *(errno.ENOTDIR, errno.ENAMETOOLONG),
}


class FileStore:
    """A `LogStore` in a folder. Keeps no files open. path: absolute path of the folder."""

    def __init__(self, path: str, kind: Kind = WRITE_AHEAD) -> None:
        self.kind = kind
        self._path = path
        self._made = {path}  # folders that are known to exist and to be durable

    @property
    def where(self) -> str:
        """Place as the option names it: "file:/data/log"."""
        return f"file:{self._path}"

    def open(self) -> None:
        """Create the folder and its parent if they are missing, and check that link() never
        overwrites a file.

        Raises LogUnavailable; the error's text suggests a fix.
        """
        with self._translated_errors("open", self._path):
            for path in (os.path.dirname(self._path), self._path):
                if not os.path.isdir(path):
                    make_folder(path)
            first, second = temporary_name(self._path), temporary_name(self._path)
            try:
                write_new(first, b"")
                self._probe(first, second)
            finally:
                remove(first)
                remove(second)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write the file under a temporary name, sync it, link it to its final name, and sync the
        folder. See `LogStore`.

        Raises LogUnavailable.
        """
        target = self._file(name)
        folder = os.path.dirname(target)
        temporary = temporary_name(folder)
        with self._translated_errors("write", target):
            self._check_real(folder)
            if folder not in self._made:
                make_folder(folder)
                self._made.add(folder)
            try:
                write_new(temporary, data)
                created = self._link(temporary, target)
            finally:
                remove(temporary)
        # Sync even if the file existed: its writer may have crashed before this step, and the file
        # must be durable.
        with self._translated_errors("write", target, may_exist=True):
            sync_folder(folder)
        return created

    def get(self, name: str, most: int) -> bytes | None:
        """Read the beginning of a file. See `LogStore`. Raises LogUnavailable."""
        target = self._file(name)
        with self._translated_errors("read", target):
            self._check_real(os.path.dirname(target))
            try:
                return read_start(target, most)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
            refresh(os.path.dirname(target))  # the cache of an NFS client may be outdated
            try:
                return read_start(target, most)
            except FileNotFoundError:
                self._check_there()
        return None

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """List a folder. See `LogStore`. Raises LogUnavailable."""
        path = os.path.join(self._path, checked_folder(folder))
        found = []
        with self._translated_errors("list", path):
            self._check_real(path)
            refresh(path)
            try:
                for seen, name in enumerate(names_in(path)):
                    if seen >= MOST_NAMES:
                        raise too_many_names(self.kind, path, MOST_NAMES)
                    if name.startswith(prefix) and is_listed(name):
                        found.append(f"{folder}/{name}")
            except FileNotFoundError:
                self._check_there()
        return sorted(found)

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        """List a folder, with sizes and times. See `LogStore`. Raises LogUnavailable."""
        return [self._stored(name) for name in self.names(folder, prefix)]

    def delete(self, name: str) -> None:
        """Delete a file. Succeeds if the file is absent. Raises LogUnavailable."""
        target = self._file(name)
        with self._translated_errors("delete", target), contextlib.suppress(FileNotFoundError):
            self._check_real(os.path.dirname(target))
            unlink(target)

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Remove `.tmp-*` files whose last write was at least `older_than_s` seconds ago. Never
        raises."""
        before = time.time() - older_than_s
        with contextlib.suppress(OSError):
            with os.scandir(self._path) as entries:
                folders = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
            for folder in (os.path.realpath(self._path), *folders):
                sweep(folder, before)

    def close(self) -> None:
        """Do nothing, because no files are open."""

    def _file(self, name: str) -> str:
        return os.path.join(self._path, *checked_object(name).split("/"))

    def _stored(self, name: str) -> Stored:
        try:
            found = os.lstat(self._file(name))
        except OSError:  # the file was just removed
            return Stored(name)
        is_usual = 0 < found.st_mtime < LATEST  # any user with write access can set a file's time
        return Stored(name, found.st_size, found.st_mtime if is_usual else 0.0)

    def _check_real(self, folder: str) -> None:
        """Raise OSError if a folder inside the log is a symbolic link.

        The log's own folder may be a link.
        """
        if folder != self._path:
            check_real(folder)

    def _check_there(self) -> None:
        """Raise OSError if the log's folder is missing.

        If the folder is missing, for example not mounted, its files must not count as absent.
        """
        os.listdir(self._path)

    def _probe(self, first: str, second: str) -> None:
        """Try to link two files to one name. Raises LogUnavailable if the file system does not
        refuse the second link."""
        try:
            os.link(first, second)
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise without_links(self.kind, self._path, f"link(): {symbol(error)}") from None
            raise
        try:
            os.link(first, second)
        except FileExistsError:
            return
        reason = "a second link() to one name is not refused"
        raise without_links(self.kind, self._path, reason)

    def _link(self, temporary: str, target: str) -> bool:
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._failed("write", target, error, error.errno not in _LINK_REFUSED) from None
        return True

    @contextlib.contextmanager
    def _translated_errors(
        self, doing: str, path: str, *, may_exist: bool = False
    ) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(doing, path, error, may_exist) from None

    def _failed(self, doing: str, path: str, error: OSError, may_exist: bool) -> LogUnavailable:
        return failed_call(self.kind, doing, path, error, may_exist=may_exist)
