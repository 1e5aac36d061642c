"""What a text about an error says, and what never gets into it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark_azqueue.rows.try_apply.reasons import ResultMismatch, reason_of

KEY = "A" * 86 + "=="


def parse(body: str) -> object:
    return json.loads(body)


def raised(call) -> Exception:
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError("it did not raise")


def test_it_names_type_message_and_the_users_line_not_the_librarys() -> None:
    text, place = reason_of(raised(lambda: parse("{")))

    line = parse.__code__.co_firstlineno + 1
    assert text == (
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1"
        f" column 2 (char 1) (test_reasons.py:{line} in parse)"
    )
    assert place == f"{__file__}:{line}"


def test_lines_of_compiled_libraries_are_not_the_users() -> None:
    text, _ = reason_of(raised(lambda: pa.array(["x"], pa.int64())))

    assert text.startswith("pyarrow.lib.ArrowInvalid: Could not convert 'x'")
    assert "(test_reasons.py:" in text


def test_of_an_installed_package_it_names_the_function_that_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_parsing.py").write_text("def price(x):\n    return inner(x)\n\n"
                                              "def inner(x):\n    return x['price']\n")  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "spark_azqueue.rows.try_apply.reasons._LIBRARIES", (str(tmp_path), __file__)
    )
    module = importlib.import_module("shop_parsing")
    try:
        text, _ = reason_of(raised(lambda: module.price({})))
    finally:
        sys.modules.pop("shop_parsing")

    assert "KeyError: 'price' (" in text


def test_it_is_bounded_and_has_no_secret_and_no_control_character() -> None:
    class HugeError(Exception):
        pass

    HugeError.__qualname__ = "E" * 10_000
    text, _ = reason_of(HugeError(f"AccountKey={KEY};\x1b[2J" + "x" * 50_000_000))

    assert len(text) < 800
    assert KEY not in text
    assert "\x1b" not in text
    assert "characters)" in text


def test_an_error_whose_text_raises_is_told_all_the_same() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    class NoTextError(Exception):
        def __str__(self):
            return 7

    class Nameless(type):
        def __getattribute__(cls, name: str) -> object:
            if name == "__module__":
                raise RuntimeError("no name")
            return super().__getattribute__(name)

    class NamelessError(Exception, metaclass=Nameless):
        pass

    assert reason_of(NamelessError("x"))[0] == "Exception: x"
    assert reason_of(BrokenError())[0].endswith("BrokenError: (its text cannot be read)")
    assert reason_of(NoTextError())[0].endswith("NoTextError: (its text cannot be read)")
    assert reason_of(ValueError())[0] == "ValueError"


def test_an_error_of_a_conversion_has_no_line_but_a_column() -> None:
    one, two = ResultMismatch("not int", "a"), ResultMismatch("not int", "b")

    assert reason_of(one)[0] == reason_of(two)[0] == "ResultMismatch: not int"
    assert reason_of(one)[1] != reason_of(two)[1]


def test_an_error_that_cannot_be_pickled_is_a_text_like_any_other() -> None:
    class HoldingError(Exception):
        def __init__(self, file: object) -> None:
            super().__init__("holds a file")
            self.file = file

    with Path(__file__).open() as file:
        assert "HoldingError: holds a file" in reason_of(HoldingError(file))[0]
