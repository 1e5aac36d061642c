"""Makes the text of a column that says why a function failed on a row: short, and without
secrets."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from types import CodeType, TracebackType

from spark_azqueue.service.redaction import shown

_MESSAGE_AT_MOST = 500
_NAME_AT_MOST = 80

_HERE = str(Path(__file__).parent)
_COMPILED = (".pyx", ".pxi", ".pxd")
_LIBRARIES = tuple({path for name, path in sysconfig.get_paths().items() if name.endswith("lib")})


class ResultMismatch(Exception):  # noqa: N818
    """The result of a function does not have the required form.

    column: name of the wrong column; "" if the whole result is wrong.
    """

    def __init__(self, text: str, column: str = "") -> None:
        super().__init__(text)
        self.column = column


def reason_of(error: BaseException) -> tuple[str, str]:
    """Return the text for an error, and the place at which the error was raised.

    The text has the type and message of the error and, if known, the line of the user's code.
    """
    kind = _name(type(error))
    found = _users_line(error.__traceback__)
    if found is None:
        column = error.column if isinstance(error, ResultMismatch) else ""
        place, where = f"{kind} {column}", ""
    else:
        code, line = found
        place = f"{code.co_filename}:{line}"
        where = f" ({_short(Path(code.co_filename).name)}:{line} in {_short(code.co_name)})"
    message = _message(error)
    return f"{_short(kind)}{': ' if message else ''}{message}{where}", place


def _name(kind: type) -> str:
    try:
        name = kind.__qualname__.rpartition("<locals>.")[2]
        is_plain = kind.__module__ in ("builtins", "__main__", __name__)
        return name if is_plain else f"{kind.__module__}.{name}"
    except Exception:  # noqa: BLE001 - the user's own metaclass
        return "Exception"


def _message(error: BaseException) -> str:
    try:
        return shown(str(error), _MESSAGE_AT_MOST)
    except Exception:  # noqa: BLE001 - the user's own __str__
        return "(its text cannot be read)"


def _short(text: str) -> str:
    return shown(text, _NAME_AT_MOST)


def _users_line(trace: TracebackType | None) -> tuple[CodeType, int] | None:
    """Return the innermost line of the user's code.

    If no line belongs to the user's code, returns the first line of any package.
    """
    lines = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(trace)
        if not frame.f_code.co_filename.startswith(_HERE)
    ]
    own = [(code, line) for code, line in lines if not _is_librarys(code.co_filename)]
    return own[-1] if own else next(iter(lines), None)


def _is_librarys(path: str) -> bool:
    return path.startswith((*_LIBRARIES, "<frozen")) or path.endswith(_COMPILED)
