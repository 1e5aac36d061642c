"""Finds and calls providers: callables of the user that return a credential object.

A user who can write a query, even only in SQL, can set the option that names the callable. So a
callable is called only if it declares that it returns a credential. Such a callable is a class with
`get_token`, or a function whose return annotation is such a class.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from spark_azqueue.errors import InvalidOption
from spark_azqueue.errors.conditions import Condition

from .policy import check_provider_allowed, not_allowed, untrusted_file_of
from .redaction import shown

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential


_invalid = partial(InvalidOption, condition=Condition.INVALID_ACCOUNT)

_RUNS_SPARK = ("pyspark", "__main__")
"""Packages in which a provider is never looked for. For example, `import pyspark.shell` would start
another Spark application.
"""

_PATH = re.compile(r"(?P<package>[^\W\d]\w*)(\.[^\W\d]\w*)*:[^\W\d]\w*")


def called(text: str) -> tuple[str, str | None]:
    """Split `package.module:callable(text)` into the path and the text. The text is None if it is
    empty or if there are no parentheses.
    """
    path, bracket, rest = text.strip().partition("(")
    return (path, rest[:-1] or None) if bracket and rest.endswith(")") else (text, None)


def check_provider(
    path: str, environment: Mapping[str, str], option: str = "credentialProvider"
) -> None:
    """Raise InvalidOption if the provider's module must not be imported.

    path: `package.module:callable`. environment: environment variables, such as `os.environ`.
    option: the option that names the provider.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise _unusable(path, "it is not like that", option)
    check_provider_allowed(path, option, environment)
    if found["package"] in sys.stdlib_module_names:
        raise _unusable(path, "a module of Python's standard library has no provider", option)
    if found["package"] in _RUNS_SPARK:
        raise _unusable(path, f"{found['package']} has none, and importing it may run code", option)


def provided_sas(path: str, argument: str | None) -> str:
    """Import and call the provider of a SAS. Returns the SAS of the provider's credential.

    If the callable is not a provider, raises InvalidOption without calling it. Errors of the
    provider are not caught; the caller must remove secrets from them.
    """
    provider = _found(path, "sasProvider")
    if not _is_provider(provider, "AzureSasCredential", "signature"):
        raise _invalid(
            f"option 'sasProvider': {path!r} does not say that it gives a SAS, so it was not"
            " called; expected a function with the annotation '-> AzureSasCredential' (of"
            " azure.core.credentials)"
        )
    credential = provider() if argument is None else provider(argument)
    sas = getattr(credential, "signature", None)
    if not isinstance(sas, str):
        raise _invalid(
            f"option 'sasProvider': {path!r} returned a {type(credential).__name__}, which has no"
            " signature; expected an azure.core AzureSasCredential"
        )
    return sas


def provided(path: str, argument: str | None) -> TokenCredential:
    """Import and call the provider of a credential. argument: the provider's argument, or None for
    a call without arguments.

    If the callable is not a provider, raises InvalidOption without calling it. Also raises
    InvalidOption if the provider fails or returns no credential.
    """
    provider = _found(path, "credentialProvider")
    if not _is_provider(provider, "TokenCredential", "get_token"):
        raise _invalid(
            f"option 'credentialProvider': {path!r} does not say that it gives a credential, so it"
            " was not called; expected a class with get_token, or a function with the annotation"
            " '-> TokenCredential' (of azure.core.credentials)"
        )
    try:
        credential = provider() if argument is None else provider(argument)
    except Exception as error:  # noqa: BLE001 (of the user's, and it may hold a secret)
        reason = f"{type(error).__name__}: {shown(error)}"
        raise _unusable(path, reason, "credentialProvider") from None
    if not hasattr(credential, "get_token"):
        raise _invalid(
            f"option 'credentialProvider': {path!r} returned a {type(credential).__name__}, which"
            " has no get_token; expected an azure.core TokenCredential"
        )
    return cast("TokenCredential", credential)


def _found(path: str, option: str) -> Any:
    """Import the object at this path. Raises InvalidOption."""
    check_provider(path, os.environ, option)
    module, _, name = path.partition(":")
    try:
        if file := untrusted_file_of(module):
            raise not_allowed(
                f"option '{option}': {shown(repr(path))} is in {shown(repr(file))}, a file of the"
                " working folder or one that a query gave to Spark (ADD FILE, --py-files); only"
                " installed modules give credentials. Install it as a package, or name its folder"
                " in PYTHONPATH"
            )
        return getattr(importlib.import_module(module), name)
    except InvalidOption:
        raise
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise _unusable(path, f"{type(error).__name__}: {shown(error)}", option) from error


def _is_provider(found: object, name: str, has: str) -> bool:
    """Return True if the callable declares that it returns a credential.

    name: name of the credential's class, used if the annotation is a string. has: attribute that
    the class must have.
    """
    if isinstance(found, type):
        return hasattr(found, has)
    if not isinstance(found, FunctionType):
        return False
    try:
        returned = found.__annotations__.get("return")
    except NameError:  # since Python 3.14, if the class is imported only for type checkers
        return False
    if isinstance(returned, str):  # with `from __future__ import annotations`
        returned = found.__globals__.get(returned, returned)
    if isinstance(returned, str):
        return returned.rpartition(".")[2] == name
    return isinstance(returned, type) and hasattr(returned, has)


def _unusable(path: str, reason: str, option: str) -> InvalidOption:
    return _invalid(
        f"option '{option}': {shown(repr(path))} cannot be used ({reason}); expected"
        " 'package.module:callable', importable on the driver and the executors, callable without"
        " arguments, or 'package.module:callable(text)', called with this text"
    )
