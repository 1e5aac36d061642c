"""What a log refuses of its folder, whatever kind of log it is: the sentences; and `tell_loss`."""

from __future__ import annotations

import errno
import logging

from spark_azqueue.errors import AzQueueError, LogConflict, LogDamaged, LogUnavailable
from spark_azqueue.service.names import Kind

from .codec import Damaged, Located
from .file_system import symbol

log = logging.getLogger(__name__)


def tell_loss(error: AzQueueError, *, lose: bool, then: str = "") -> None:
    """Raise this error; with `lose` (failOnDataLoss=false) warn of it, and continue.

    then: what follows from the loss, for the warning.
    """
    if not lose:
        raise error
    log.warning("%s%s", error, f"; failOnDataLoss=false: {then}" if then else "")


def damaged(place: Located, name: str, error: Damaged) -> LogDamaged:
    """An object is not as it was written."""
    kind, where = place.kind, place.where
    return LogDamaged(
        f"'{name}' in the {kind.words} {where} is not as it was written: {error}. Nothing was"
        f" read from it or written over it. Restore it, or {kind.last_resort}"
    )


def vanished(place: Located, name: str) -> LogDamaged:
    """An object existed when ours was put, and does not now."""
    return LogDamaged(
        f"'{name}' in the {place.kind.words} {place.where} existed a moment ago, and is"
        " gone: does something else delete objects of this folder?"
    )


def unreadable_identity(place: Located, name: str) -> LogDamaged:
    """The identity object is not valid."""
    return LogDamaged(
        f"'{name}' in the {place.kind.words} {place.where} is not as spark-azqueue wrote it,"
        " or a newer one did: restore it, upgrade, or name another folder"
    )


def earlier_names(place: Located, name: str, version: int, known: int) -> LogDamaged:
    """A version of the package before its first release wrote the log."""
    return LogDamaged(
        f"'{name}' in the {place.kind.words} {place.where} is of version {version}, from before the"
        f" first release; this one reads version {known}. Finish the log with the package that"
        " wrote it, then start with a new folder and a new checkpointLocation"
    )


def missing_identity(place: Located, name: str, contents: str) -> LogDamaged:
    """A folder has objects of a log, and no identity."""
    return LogDamaged(
        f"the {place.kind.words} {place.where} has {contents}/…, but its {name} is"
        " missing: restore it, or name another folder"
    )


def folder_of_another_kind(place: Located, kind: Kind) -> LogConflict:
    """The folder holds a log of this kind. place: what the options say that it is."""
    return LogConflict(
        f"{place.where} is the folder of a {kind.words}, and '{place.kind.option}' names it for"
        f" a {place.kind.words}: name another one"
    )


def folder_of_another_account(place: Located, account: str, named: str) -> LogConflict:
    """The log is of this account. named: the one in the options."""
    return LogConflict(
        f"the {place.kind.words} {place.where} belongs to the account '{account}', but"
        f" the options name '{named}': name another folder"
    )


def another_writer(where: str) -> LogConflict:
    """A process may not write the write-ahead log any more."""
    return LogConflict(
        f"another process writes the write-ahead log {where}, so this query stops; nothing is lost."
        " Is the query running twice? A second start, a copied checkpoint, a driver that was"
        " believed dead, or two load() calls with one folder: give each its own folder, and two"
        " load() calls a new checkpointLocation, too"
    )


def too_many_names(kind: Kind, path: str, most: int) -> LogUnavailable:
    """A folder has more names than can be listed."""
    return LogUnavailable(
        f"could not list {path}: it has more than {most:,} names, and a"
        f" {kind.words} has far fewer. Is it another program's folder?",
        sent=False,
    )


def without_links(kind: Kind, path: str, reason: str) -> LogUnavailable:
    """A file system cannot create a file only if it does not exist."""
    return LogUnavailable(
        f"the file system of {path} cannot create a file only if it does not exist"
        f" ({reason}), so two queries could overwrite each other's log. Use a disk or NFS, or"
        f" {kind.option}=blob:<container>/<folder>",
        sent=False,
    )


_ADVICE = {
    errno.ENOSPC: "Make room there",
    errno.EDQUOT: "Make room there, or raise the quota",
    errno.EROFS: "Mount it for writing",
    errno.EACCES: "Let the user of the driver's process read and write there",
    errno.EPERM: "Let the user of the driver's process read and write there",
    errno.ENOENT: "Is the disk {mounted}? For a new log, create the folder above; else restore it",
    errno.ENOTDIR: "Name a folder in the option '{option}'",
    errno.EISDIR: "Remove the folder that has the name of a file of the log",
    errno.EINVAL: "Remove what has the name of a file of the log: a pipe, or a device",
    errno.ELOOP: "Remove the symbolic link: within the log, folders and files are real ones",
}
_OTHERWISE = "Check the disk, or the server that holds it, then start the query again"


def failed_call(
    kind: Kind, doing: str, path: str, error: OSError, *, may_exist: bool
) -> LogUnavailable:
    """A call of the file system failed. may_exist: the file may be there, or appear later."""
    advice = _ADVICE.get(error.errno or 0, _OTHERWISE)
    advice = advice.format(option=kind.option, mounted=kind.mounted)
    return LogUnavailable(
        f"could not {doing} {path} of the {kind.words}: {symbol(error)}"
        f" ({error.strerror or error}). {advice}",
        sent=may_exist,
    )
