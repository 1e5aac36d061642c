"""Credential objects of the user's own: which callables are providers, and the call of one.

Whoever may write a query, even in SQL alone, sets the option. So a callable is called only if it
says of itself that it gives a credential: it is a class with `get_token`, or a function whose
return annotation is one.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, cast

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import InvalidOption

from .redaction import shown

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_invalid = partial(InvalidOption, condition=Condition.INVALID_ACCOUNT)

ALLOWED = "AZQUEUE_CREDENTIAL_PROVIDERS"
"""In the environment: the only providers that may be used, with commas. Unset: any provider."""

_PATH = re.compile(r"(?P<package>[^\W\d]\w*)(\.[^\W\d]\w*)*:[^\W\d]\w*")


def check_provider(path: str, environment: Mapping[str, str]) -> None:
    """Raise InvalidOption for a path that must not even be imported.

    path: `package.module:callable`. environment: as `os.environ`.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise _unusable(path, "it is not like that")
    allowed = environment.get(ALLOWED)
    if allowed is not None and path not in map(str.strip, allowed.split(",")):
        raise _invalid(
            f"option 'credentialProvider': {shown(repr(path))} is not among the providers that the"
            f" environment variable {ALLOWED} allows; use one of them, or have it added there"
        )
    if found["package"] in sys.stdlib_module_names:
        raise _unusable(path, "a module of Python's standard library has no provider")


def provided(path: str, argument: str | None) -> TokenCredential:
    """Import the provider, and call it. argument: None to call it without one.

    Raises InvalidOption if it is none (then it is not called), fails, or gives no credential.
    """
    check_provider(path, os.environ)
    module, _, name = path.partition(":")
    try:
        provider = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise _unusable(path, f"{type(error).__name__}: {shown(error)}") from error
    if not _is_provider(provider):
        raise _invalid(
            f"option 'credentialProvider': {path!r} does not say that it gives a credential, so it"
            " was not called; expected a class with get_token, or a function with the annotation"
            " '-> TokenCredential' (of azure.core.credentials)"
        )
    try:
        credential = provider() if argument is None else provider(argument)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise _unusable(path, f"{type(error).__name__}: {shown(error)}") from error
    if not hasattr(credential, "get_token"):
        raise _invalid(
            f"option 'credentialProvider': {path!r} returned a {type(credential).__name__}, which"
            " has no get_token; expected an azure.core TokenCredential"
        )
    return cast("TokenCredential", credential)


def _is_provider(found: object) -> bool:
    if isinstance(found, type):
        return _gives_tokens(found)
    if not isinstance(found, FunctionType):
        return False
    try:
        returned = found.__annotations__.get("return")
    except NameError:  # from Python 3.14 on, if it is imported for type checkers alone
        return False
    if isinstance(returned, str):  # with `from __future__ import annotations`
        returned = found.__globals__.get(returned, returned)
    if isinstance(returned, str):
        return returned.rpartition(".")[2] == "TokenCredential"
    return _gives_tokens(returned)


def _gives_tokens(kind: object) -> bool:
    return isinstance(kind, type) and callable(getattr(kind, "get_token", None))


def _unusable(path: str, reason: str) -> InvalidOption:
    return _invalid(
        f"option 'credentialProvider': {shown(repr(path))} cannot be used ({reason}); expected"
        " 'package.module:callable', importable on the driver and the executors, callable without"
        " arguments, or with one text if 'credentialProviderArgument' is set"
    )
