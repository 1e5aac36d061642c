"""docs/api.md: the public names of the package, from their signatures and docstrings.

`tools/reference.py` writes the page; a test compares it with the code.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from docstrings import markdown

from spark_azqueue import errors

HEAD = """# Python API

<!-- Generated from the docstrings by `make docs`; do not edit. -->

For anyone who writes Python around a query: every public name, what goes in, what comes
out, and what it raises.
A query itself needs none of them: it needs `format("azqueue")` and [options](options.md).
Names that are not on this page may change in any release ([what is stable](versions.md)).
"""


class Group(NamedTuple):
    """A part of the page. names: the module that users import from, and what."""

    title: str
    intro: str
    names: tuple[tuple[str, tuple[str, ...]], ...]


_TOP = "spark_azqueue"

GROUPS = (
    Group(
        "The format",
        "Spark finds it by itself ([install](permissions.md#install-on-a-cluster)).",
        ((_TOP, ("AzQueueDataSource",)),),
    ),
    Group(
        "From a queue to a table",
        "See [your first production job](production.md).",
        ((_TOP, ("IngestJob",)),),
    ),
    Group(
        "Hide secrets",
        "In event logs and plans ([why](permissions.md#event-logs)).",
        ((_TOP, ("redaction_conf",)),),
    ),
    Group(
        "Acknowledge by hand",
        "For streams with `deleteOnCommit=false`"
        " ([acknowledge each message](writing.md#acknowledge-each-message)).",
        ((_TOP, ("settle", "Retry", "DeadLetter", "Settled", "backoff")),),
    ),
    Group(
        "Apply a function that may raise",
        "See [functions that raise](bad-rows.md#functions-that-raise).",
        ((_TOP, ("try_apply", "split_apply", "SplitRows", "dead_letters")),),
    ),
    Group(
        "Pack many rows into one message",
        "See [many rows in one message](packing.md).",
        ((_TOP, ("pack", "unpack")),),
    ),
    Group(
        "Start again after a failure",
        "See [supervision](supervision.md).",
        ((_TOP, ("run_until_done", "RunResult", "drain", "DrainResult")),),
    ),
    Group(
        "Explain an error",
        "See [troubleshooting](troubleshooting.md).",
        ((_TOP, ("explain", "Explanation")),),
    ),
    Group(
        "See what happens",
        "See [metrics](metrics.md), which also lists the metrics.",
        (
            (_TOP, ("AzQueueListener", "transaction_reader", "queue_watch")),
            (_TOP, ("export_to_prometheus", "export_to_opentelemetry")),
        ),
    ),
    Group(
        "Read files as they arrive",
        "See [files](files.md).",
        ((_TOP, ("read_new_files",)),),
    ),
    Group(
        "Drop duplicates",
        "See [deduplicate by key](cookbook.md#deduplicate-by-key).",
        ((_TOP, ("without_duplicates",)),),
    ),
    Group(
        "Read events",
        "See [events](files.md#events-as-columns) and [files](files.md).",
        ((_TOP, ("parsed_events", "blob_events", "bounded_json")),),
    ),
    Group(
        "Test a job",
        "See [test your own job](testing.md). These need neither Spark nor Azure's SDK.",
        (
            (
                "spark_azqueue.testing",
                (
                    *("FakeQueueService", "Fault", "FaultScript", "FakeClock"),
                    *("MessageView", "LogEntry", "Refusal"),
                ),
            ),
            ("spark_azqueue.testing", ("Azurite", "AzuriteUnavailable")),
        ),
    ),
)


def api_page() -> str:
    """What docs/api.md holds."""
    parts = [HEAD]
    for group in GROUPS:
        parts.append(f"## {group.title}\n\n{group.intro}\n")
        for module, names in group.names:
            parts += [_entry(module, name) for name in names]
    parts.append(_errors())
    return "\n".join(parts)


def _entry(module: str, name: str) -> str:
    thing = getattr(importlib.import_module(module), name)
    lines = [f"### `{name}`", "", "```py", f"from {module} import {name}", ""]
    lines += [_declared(thing, name), "```", "", markdown(_doc(thing), _parameters(thing))]
    if inspect.isclass(thing):
        first = thing.__dict__.get("__init__")
        if first is not None and first.__doc__:
            lines += ["", markdown(inspect.cleandoc(first.__doc__), _parameters(thing))]
        members = list(_members(thing))
        lines += ["", "Members:", "", *members] if members else []
    return "\n".join(lines) + "\n"


def _doc(thing: Any) -> str:
    doc = inspect.getdoc(thing)
    if not doc:
        raise ValueError(f"{thing!r} is public and has no docstring")
    return doc


def _declared(thing: Any, name: str) -> str:
    kind = "class" if inspect.isclass(thing) else "def"
    if inspect.isclass(thing) and (_is_spark_s(thing) or issubclass(thing, Exception)):
        return f"class {name}({', '.join(base.__name__ for base in thing.__bases__)})"
    return f"{kind} {_signature(thing, name)}"


def _is_spark_s(thing: type) -> bool:
    """True for what Spark makes, and what nobody calls by hand."""
    return thing.__module__ == "spark_azqueue.datasource"


def _parameters(thing: Any) -> set[str]:
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return set()


def _signature(thing: Any, name: str, width: int = 88) -> str:
    """As one would write it; one parameter on each line if it is long."""
    signature = inspect.signature(thing)
    shown, star = [], False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        shown.append(_parameter(each))
    given = signature.return_annotation
    returns = (
        "" if given is signature.empty or inspect.isclass(thing) else f" -> {_annotation(given)}"
    )
    one = f"{name}({', '.join(shown)}){returns}"
    if len(one) <= width:
        return one
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){returns}"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = "" if each.annotation is each.empty else f": {_annotation(each.annotation)}"
    default = "" if each.default is each.empty else f"{' = ' if kind else '='}{_default(each)}"
    return f"{stars}{each.name}{kind}{default}"


def _annotation(value: Any) -> str:
    """As the code has it: a text, in a NamedTuple a reference to one, or the type itself."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__forward_arg__", getattr(value, "__name__", value)))


def _default(each: inspect.Parameter) -> str:
    if callable(each.default):
        return f"{each.default.__module__}.{each.default.__qualname__}"
    text = repr(each.default)
    return text if len(text) <= 30 and not text.startswith("<") else "…"


def _members(thing: type) -> Iterator[str]:
    """A line for each public method and property that the class itself has."""
    if _is_spark_s(thing):
        return
    for name, member in vars(thing).items():
        if name.startswith("_") or (name[:2] == "on" and name[2:3].isupper()):
            continue  # Spark calls a listener's `onQuery…`
        if isinstance(member, property):
            yield f"- `{name}`: {_flat(inspect.getdoc(member) or '')}"
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            bound = getattr(thing, name)
            yield f"- `{_signature(bound, name, 10_000)}`: {_flat(_doc(bound))}"


def _flat(doc: str) -> str:
    return " ".join(markdown(doc, set()).split())


def _errors() -> str:
    """The tree of errors, as a table."""
    lines = [
        "## Errors",
        "",
        "They are in `spark_azqueue`, too. Each message begins with the id of",
    ]
    lines += ["its [condition](troubleshooting.md#conditions). Inside a query Spark wraps them:"]
    lines += ["[`explain`](#explain) finds them.", "", "| error | is a | when |", "|---|---|---|"]
    for name, each in vars(errors).items():
        if (
            inspect.isclass(each)
            and issubclass(each, Exception)
            and each.__module__ == errors.__name__
        ):
            bases = ", ".join(f"`{base.__name__}`" for base in each.__bases__)
            lines.append(f"| `{name}` | {bases} | {_flat(_doc(each).split(chr(10) * 2)[0])} |")
    return "\n".join(lines) + "\n"
