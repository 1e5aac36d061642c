"""Errors about the folder of any kind of log, and the function `tell_loss`."""

from __future__ import annotations

import errno
import logging

from spark_azqueue.errors import AzQueueError, LogConflict, LogDamaged, LogUnavailable
from spark_azqueue.service.names import Kind

from .codec import Damaged, Located
from .file_system import symbol

log = logging.getLogger(__name__)


def tell_loss(error: AzQueueError, *, lose: bool, then: str = "") -> None:
    """Raise this error or, with `lose` (failOnDataLoss=false), log it as a warning.

    then: what happens because of the loss, as text for the warning.
    """
    if not lose:
        raise error
    log.warning("%s%s", error, f"; failOnDataLoss=false: {then}" if then else "")


def damaged(place: Located, name: str, error: Damaged) -> LogDamaged:
    """Error for a damaged object."""
    kind, where = place.kind, place.where
    return LogDamaged(
        f"'{name}' in the {kind.words} {where} is not as it was written: {error}. Nothing was"
        f" read from it or written over it. Restore it, or {kind.last_resort}"
    )


def vanished(place: Located, name: str) -> LogDamaged:
    """Error for an object that existed when this process tried to put it, and is missing now."""
    return LogDamaged(
        f"'{name}' in the {place.kind.words} {place.where} existed a moment ago, and is"
        " gone: does something else delete objects of this folder?"
    )


def unreadable_identity(place: Located, name: str) -> LogDamaged:
    """Error for an identity object that is not valid."""
    return LogDamaged(
        f"'{name}' in the {place.kind.words} {place.where} is damaged, or a newer release"
        " of spark-azqueue wrote it: restore it, upgrade, or name another folder"
    )


def earlier_names(place: Located, name: str, version: int, known: int) -> LogDamaged:
    """Error for a log that was written before the first release of the package."""
    return LogDamaged(
        f"'{name}' in the {place.kind.words} {place.where} is of version {version}, from before the"
        f" first release; this one reads version {known}. Finish the log with the package that"
        " wrote it, then start with a new folder and a new checkpointLocation"
    )


def missing_identity(place: Located, name: str, contents: str) -> LogDamaged:
    """Error for a folder that has objects of a log, but no identity."""
    return LogDamaged(
        f"the {place.kind.words} {place.where} has {contents}/…, but its {name} is"
        " missing: restore it, or name another folder"
    )


def folder_of_another_kind(place: Located, kind: Kind) -> LogConflict:
    """Error for a folder that has a log of another kind. kind: kind of the log in the folder.
    place: kind and folder in the options."""
    return LogConflict(
        f"{place.where} is the folder of a {kind.words}, and '{place.kind.option}' names it for"
        f" a {place.kind.words}: name another folder"
    )


def folder_of_another_account(place: Located, account: str, named: str) -> LogConflict:
    """Error for a log of another account. account: the log's account. named: the account in the
    options."""
    return LogConflict(
        f"the {place.kind.words} {place.where} belongs to the account '{account}', but"
        f" the options name '{named}': name another folder"
    )


def another_writer(where: str) -> LogConflict:
    """Error for a process that may no longer write the write-ahead log."""
    return LogConflict(
        f"another process writes the write-ahead log {where}, so this query stops; nothing is lost."
        " Is the query running twice? Possible causes: a second start, a copied checkpoint, a"
        " driver that was believed dead, or two load() calls with one folder. Give each query and"
        " each load() its own folder; two load() calls need a new checkpointLocation, too"
    )


def too_many_names(kind: Kind, path: str, most: int) -> LogUnavailable:
    """Error for a folder with more names than can be listed."""
    return LogUnavailable(
        f"could not list {path}: it has more than {most:,} names, and a"
        f" {kind.words} has far fewer. Is it another program's folder?",
        sent=False,
    )


def without_links(kind: Kind, path: str, reason: str) -> LogUnavailable:
    """Error for a file system in which link() does not protect an existing file from being
    overwritten."""
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
    errno.EINVAL: "Remove the pipe or the device that has the name of a file of the log",
    errno.ELOOP: "Remove the symbolic link: within the log, folders and files are real ones",
}
_OTHERWISE = "Check the disk, or the server that holds it, then start the query again"


def failed_call(
    kind: Kind, doing: str, path: str, error: OSError, *, may_exist: bool
) -> LogUnavailable:
    """Error for a failed call of the file system.

    may_exist: the file may exist, or appear later.
    """
    advice = _ADVICE.get(error.errno or 0, _OTHERWISE)
    advice = advice.format(option=kind.option, mounted=kind.mounted)
    return LogUnavailable(
        f"could not {doing} {path} of the {kind.words}: {symbol(error)}"
        f" ({error.strerror or error}). {advice}",
        sent=may_exist,
    )
