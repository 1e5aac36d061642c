"""Declaration of options. Each option is declared once, on the config's field that takes the value.

    max_bytes: int = option("maxBytesPerTrigger", byte_size(2**16, 2**31), "…", default=2**25)

An option that has no field of its own is declared as an `Option` next to the code that uses it. The
field that this code computes names the option in `made_of`. The declarations are the source of
`parse.OPTIONS`, the defaults, the suggestions for an unknown option, and docs/options.md (made by
tools/reference.py, in the groups of tools/option_groups.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

from .choices import Side

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """One option. `name` is spelled as in the documentation; Spark passes names in lower case.

    parse: parses the text, and raises ValueError with the rules. default: a parsed value. shown:
    the default as users would write it, if different from `default`. side: SOURCE or SINK for an
    option of one side that is declared on a config of both sides.
    """

    name: str
    parse: Callable[[str], Any]
    doc: str
    default: Any = None
    shown: str = ""
    secret: bool = False
    side: Side = Side.BOTH

    def __post_init__(self) -> None:
        if self.default is not None and not self.shown:
            shown = self.default.value if isinstance(self.default, enum.Enum) else self.default
            shown = str(shown).lower() if isinstance(shown, bool) else str(shown)
            object.__setattr__(self, "shown", shown)


def option(
    name: str,
    parse: Callable[[str], T],
    doc: str,
    *,
    default: T | None = None,
    shown: str = "",
    side: Side = Side.BOTH,
) -> T:
    """Return a dataclass field that takes the value of this option. Arguments: see `Option`."""
    return cast("T", shared(Option(name, parse, doc, default, shown, side=side)))


def shared(declared: Option) -> Any:
    """Return a dataclass field for an option that several configs use."""
    return field(default=declared.default, metadata={"option": declared})


def made_of(*options: Option) -> Any:
    """Return a dataclass field without a default.

    The code that makes the config computes the value of this field from these options.
    """
    return field(metadata={"options": options})


def options_of(config: type) -> Iterator[Option]:
    """Yield the options on the fields of a config, in order of the fields."""
    for each in fields(config):
        if "option" in each.metadata:
            yield each.metadata["option"]
        yield from each.metadata.get("options", ())


def taken(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that take an option's value unchanged. values: parsed values
    by option name.
    """
    return {
        each.name: values[each.metadata["option"].name]
        for each in fields(config)
        if "option" in each.metadata
    }


class ParsedOptions(dict[str, Any]):
    """Parsed values of all options, by option name. An option that was not set has its default.

    written: the original texts of the options that were set.
    """

    def __init__(self, values: Mapping[str, Any], written: Mapping[str, str]) -> None:
        super().__init__(values)
        self.written = dict(written)

    def __repr__(self) -> str:
        """Return names only, because values may be secrets."""
        return f"{type(self).__name__}({', '.join(self.written)})"

    def idle(self, config: type, besides: Iterable[Option] = ()) -> str:
        """Return the name of an option that is set although its config is not used; "" if there is
        no such option.

        besides: options of the config that other code uses, and that may be set.
        """
        names = {each.name for each in options_of(config)} - {each.name for each in besides}
        return min(names & self.written.keys(), default="")
