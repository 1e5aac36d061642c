"""An administrator's policy: the providers, hosts and folders that a query's options may name.

Options are part of a query. So a user who can run queries, even only in SQL, can set options. The
policy is a JSON object in the environment variable AZQUEUE_POLICY, or a dict `POLICY` in the
installed module `azqueue_policy`. If both exist, both apply. An unreadable policy allows nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, cast
from urllib.parse import urlsplit

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition

from .account import Account
from .redaction import hide_secrets, shown

not_allowed = partial(InvalidOption, condition=Condition.NOT_ALLOWED)

VARIABLE = "AZQUEUE_POLICY"
MODULE = "azqueue_policy"
PROVIDERS = "AZQUEUE_CREDENTIAL_PROVIDERS"
"""Environment variable with a policy that restricts only providers. Its value is a list of provider
paths, separated by commas.
"""

_LISTS = ("providers", "hosts", "logRoots")
_LONGEST = 100_000
_HOST = re.compile(
    r"((?P<scheme>https?)://)?(?P<host>(\*\.)?[a-z0-9._-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
# https://learn.microsoft.com/azure/storage/common/storage-account-overview: standard endpoints, and
# endpoints with a DNS zone. Azure Government and the cloud operated by 21Vianet have other
# suffixes.
_AZURE = re.compile(
    r"[a-z0-9-]+(\.privatelink)?(\.z[0-9]{1,2})?\.(queue|blob)\."
    r"(core\.windows\.net|core\.usgovcloudapi\.net|core\.chinacloudapi\.cn|storage\.azure\.net)"
)


@dataclass(frozen=True)
class Policy:
    """An administrator's limits on the values of options. If a field is None, only the built-in
    rules apply.

    source: the place from which the policy was read, as text for errors. providers: allowed
    providers, as `package.module:callable`. hosts: allowed host names, or `*.` and a suffix, with
    or without `:port`. A host must use https unless its entry begins with `http://`. log_roots:
    absolute paths of folders. A `file:` log must be in one of these folders.
    """

    source: str
    providers: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None
    log_roots: tuple[str, ...] | None = None

    def in_words(self) -> str:
        """Return the whole policy as text, for the output of `doctor`."""
        lists = zip(
            ("providers", "hosts", "folders of file: logs"),
            (self.providers, self.hosts, self.log_roots),
            strict=True,
        )
        said = [
            f"{what}: {hide_secrets(', '.join(those)) or 'none'}"
            for what, those in lists
            if those is not None
        ]
        return f"the policy in {self.source} allows {'; '.join(said) or 'what the defaults allow'}"

    def allows_host(self, url: str) -> bool | None:
        """Return True if the policy allows requests to this URL, else False; None if the policy
        does not limit hosts.
        """
        if self.hosts is None:
            return None
        parts = urlsplit(url)
        name = (parts.hostname or "").lower()
        port = parts.port or (443 if parts.scheme == "https" else 80)
        for each in self.hosts:
            found = _HOST.fullmatch(each)
            assert found
            host = found["host"].lower().strip("[]")
            matches = name.endswith(host[1:]) if host.startswith("*.") else name == host
            same_port = found["port"] is None or int(found["port"]) == port
            if matches and same_port and (found["scheme"] or "https").lower() == parts.scheme:
                return True
        return False


def policies(environment: Mapping[str, str]) -> list[Policy]:
    """Return the policies of this process. The value of an option must be allowed by every policy.

    environment: environment variables, such as `os.environ`. Raises InvalidOption if a policy is
    unreadable.
    """
    found = []
    if (listed := environment.get(PROVIDERS)) is not None:
        names = tuple(name.strip() for name in listed.split(",") if name.strip())
        found.append(Policy(f"the environment variable {PROVIDERS}", providers=names))
    if (text := environment.get(VARIABLE)) is not None:
        found.append(_of_text(text))
    if (installed := installed_policy()) is not None:
        found.append(installed)
    return found


def check_provider_allowed(path: str, option: str, environment: Mapping[str, str]) -> None:
    """Raise InvalidOption if a policy does not allow the provider at this
    `package.module:callable`.
    """
    for policy in policies(environment):
        if policy.providers is not None and path not in policy.providers:
            raise not_allowed(
                f"option '{option}': {shown(repr(path))} is not among the providers that"
                f" {policy.source} allows; use one of them, or have it added there"
            )


def check_destination(account: Account, option: str, environment: Mapping[str, str]) -> None:
    """Raise InvalidOption if this account's credential must not be sent to the account's `url`.

    option: the option that names the URL. The error names this option.

    A credential of the environment is always allowed, because it is sent only to the endpoint in
    its own connection string. If no policy limits hosts, a key, SAS or client secret in the options
    may be sent to any host that the options name. A token of a machine's identity, or a SAS of a
    provider, may be sent only to Azure's own hosts, over https.
    """
    held = policies(environment)  # also read here: an unreadable policy allows nothing
    if account.of_environment:
        return
    url = account.url
    outcomes = [(policy, policy.allows_host(url)) for policy in held]
    for policy, allowed in outcomes:
        if allowed is False:
            raise not_allowed(
                f"the {option} names {url}, which is not among the hosts that {policy.source}"
                " allows; name one of them, or have it added there"
            )
    identity = account.identity and not account.identity.client_secret
    if not (identity or account.sas_provider) or any(allowed for _, allowed in outcomes):
        return
    parts = urlsplit(url)
    what = "the token of an identity" if identity else "the SAS of a provider"
    remedy = f"; an administrator can allow the host in the policy ({VARIABLE}, permissions.md)"
    if parts.scheme != "https":
        raise not_allowed(f"the {option} names {url}, and {what} is sent by https only{remedy}")
    if not _AZURE.fullmatch((parts.hostname or "").lower()):
        raise not_allowed(
            f"the {option} names {url}, which is no host of Azure Storage, and {what} is sent to"
            f" those only{remedy}"
        )


def check_log_root(path: str, environment: Mapping[str, str]) -> None:
    """Raise InvalidOption if a policy does not allow a log in this folder.

    Symbolic links are followed, both in the path and in the policy.
    """
    for policy in policies(environment):
        if policy.log_roots is None:
            continue
        real = os.path.realpath(path)
        roots = [os.path.realpath(root) for root in policy.log_roots]
        if not any(os.path.commonpath([real, root]) == root for root in roots):
            raise not_allowed(
                f"the log file:{shown(path)} is in none of the folders that {policy.source} allows"
                f" ({hide_secrets(', '.join(policy.log_roots)) or 'none'}); name one below these,"
                " or have its folder added there"
            )


def _of_text(text: str) -> Policy:
    source = f"the environment variable {VARIABLE}"
    if len(text) > _LONGEST:
        raise _unreadable(source, f"it is longer than {_LONGEST:,} characters")
    try:
        value = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError):
        raise _unreadable(source, "it is not JSON, or has a name twice") from None
    return _checked(value, source)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict.

    Raises ValueError if a name occurs twice, because it is unknown which value is meant.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError
    return value


@functools.cache
def installed_policy() -> Policy | None:
    """Return the policy of the installed module.

    The module is looked for only in folders of installed packages.
    """
    source = f"the module {MODULE}"
    spec = _module()
    if spec is None:
        return None
    if spec.loader is None:
        raise _unreadable(source, "it is a folder without __init__.py; remove it if it is empty")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _unreadable(source, f"{type(error).__name__}: {shown(error)}") from error
    return _checked(getattr(module, "POLICY", None), source)


def _module() -> ModuleSpec | None:
    """Return the module's spec, found by path or, for an editable install, by import hook."""
    if (spec := PathFinder.find_spec(MODULE, trusted_path())) is not None:
        return spec
    for finder in sys.meta_path:
        find = None if finder is PathFinder else getattr(finder, "find_spec", None)
        if not find or not (spec := find(MODULE, None)):
            continue
        # Some import hooks search the path themselves, and may find the file that was skipped
        # above.
        if PathFinder.find_spec(MODULE) is None or (spec.origin and is_trusted(spec.origin)):
            return cast("ModuleSpec", spec)
    return None


def _checked(value: Any, source: str) -> Policy:
    if not isinstance(value, dict):
        raise _unreadable(source, "it is not an object (in Python, a dict named POLICY)")
    if unknown := sorted(map(str, value.keys() - set(_LISTS))):
        raise _unreadable(source, f"{shown(repr(unknown[0]))} is none of {', '.join(_LISTS)}")
    lists: dict[str, tuple[str, ...] | None] = dict.fromkeys(_LISTS)
    for name, those in value.items():
        if not isinstance(those, list) or not all(isinstance(each, str) for each in those):
            raise _unreadable(source, f"{name!r} is not a list of texts")
        for each in those:
            if wrong := next(_faults(name, each), None):
                raise _unreadable(source, f"{name!r} has {shown(repr(each))}: {wrong}")
        lists[name] = tuple(those)
    return Policy(source, lists["providers"], lists["hosts"], lists["logRoots"])


def _faults(name: str, each: str) -> Iterator[str]:
    if name == "hosts" and not _HOST.fullmatch(each):
        yield (
            "expected a host such as shop.queue.core.windows.net, *.queue.core.windows.net or"
            " http://127.0.0.1:10001"
        )
    if name == "logRoots" and not each.startswith("/"):
        yield "expected an absolute folder"


def _unreadable(source: str, why: str) -> InvalidOption:
    return not_allowed(
        f"{source} cannot be read as a policy ({why}), so no query is allowed; correct it. It"
        f" may have {', '.join(_LISTS)}, each a list of texts"
    )


def check_installed(module: str, credential: str) -> None:
    """Raise InvalidOption if importing this module would run a file that came with a query.

    credential: value of the option `credential`, for the error.
    """
    if file := untrusted_file_of(module):
        raise not_allowed(
            f"credential={credential}: {shown(repr(file))} stands for the module {module}, and is a"
            " file of the working folder or one that a query gave to Spark (ADD FILE, --py-files);"
            " only installed modules give credentials. Remove it, or name its folder in PYTHONPATH"
        )


def trusted_path() -> list[str]:
    """Return `sys.path` without the working folder and without the folders into which Spark puts
    the files of queries.
    """
    installed = _installed_folders()
    return [entry for entry in sys.path if entry and is_trusted(entry, installed)]


def untrusted_file_of(module: str) -> str | None:
    """Import a module's parent packages. Return the module's file if this file must not run, else
    None.

    module: "package.module". A parent package is imported only if its own file may run. Raises the
    error of a failed import of a parent.
    """
    installed = _installed_folders()
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        if name in sys.modules and getattr(sys.modules[name], "__spec__", None) is None:
            continue  # the module is already imported, and its origin is unknown
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None  # no such module: the import will raise the error
        if count == 1 and PathFinder.find_spec(parts[0]) is None:
            # an editable install by an import hook, which a query's files cannot install
            return None
        if spec.has_location and spec.origin and not is_trusted(spec.origin, installed):
            return spec.origin
    return None


def is_trusted(path: str, installed: list[str] | None = None) -> bool:
    """Return False if the path is in, or leads through, the working folder or Spark's folder for
    files of queries.

    installed: result of `_installed_folders`. Exception: a path in the working folder is trusted if
    it is in one of these folders.
    """
    if _is_in(path, _spark_files()):
        return False
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # the folder was deleted, so nothing is in it
        return True
    if not _is_in(path, [here]):
        return True
    folders = _installed_folders() if installed is None else installed
    folders = [folder for folder in folders if _is_below(folder, here)]
    written = os.path.abspath(path)
    return _is_in(path, folders) or any(_is_below(written, folder) for folder in folders)


def _is_in(path: str, folders: list[str]) -> bool:
    """Return True if a path, before links are resolved, leads into or through one of these folders.

    So a link in one of the folders counts as a path in this folder, wherever the link leads.
    """
    written = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    while True:
        real = os.path.realpath(written)
        if any(_is_below(real, folder) for folder in folders):
            return True
        above = os.path.dirname(written)
        if above == written:
            return False
        written = above


def _installed_folders() -> list[str]:
    """Return the folders of installed packages, and the folders that an operator names in
    PYTHONPATH and `.pth` files.
    """
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    linked = [entry for folder in folders for entry in _linked(folder)]
    found = (*folders, *named, *linked)
    return [
        each for folder in found for each in (os.path.realpath(folder), os.path.abspath(folder))
    ]


def _linked(folder: str) -> Iterator[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    entry = line.strip()
                    if entry and not entry.startswith(("#", "import ", "import\t")):
                        yield os.path.join(folder, entry)
        except OSError:
            continue


def _spark_files() -> list[str]:
    """Return the folders into which Spark puts the files of queries. The list is empty if this
    process has no such folder.
    """
    module = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    files: Any = getattr(module, "SparkFiles", None)
    root = getattr(files, "_root_directory", None)
    if not root and getattr(files, "_sc", None) is not None:  # this is the driver's own process
        with contextlib.suppress(Exception):  # Spark has stopped, and its files are deleted
            root = files.getRootDirectory()
    return [os.path.realpath(root)] if isinstance(root, str) and root else []


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
