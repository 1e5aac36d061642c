"""A model of an IngestJob: its folder (checkpoint, log), its queue, its table with a note of it.

All histories of up to two processes that are killed between any two steps and started again with
other columns, while the folder is restored, copied, rolled back or removed, or the table removed,
or another folder writes into the same table. A batch has one message. `g` fits, `b` does not. Each
rule is taken away once, and then a promise breaks. The rules are what Spark's sinks, the source's
log and `spark_azqueue/running/ingest_rules.py` do together. The file sink knows a batch by its
number alone; Delta by its number and the checkpoint's id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

AHEAD = "a table with newer batches than the checkpoint is refused"
BEHIND = "a table without batches that the checkpoint has committed is refused"
COLUMNS = "columns that the newest rows of the table have, and this start has not, are refused"
ONE_OUTPUT = "rows that fit and rows that do not are one commit of one sink"
SAME_ROWS = "a batch that is repeated has the same rows"
CLAIM = "a newer start fences an older one"
OWNER = "a table whose note names another folder is refused"
NOTE_FIRST = "the note is written before the query starts"
FOLDER_LOST = "a folder without a record is refused if the table's note names this folder"
RULES = frozenset(
    {AHEAD, BEHIND, COLUMNS, ONE_OUTPUT, SAME_ROWS, CLAIM, OWNER, NOTE_FIRST, FOLDER_LOST}
)

Columns = frozenset[tuple[str, str]]
NARROW: Columns = frozenset({("a", "int")})
WIDE: Columns = frozenset({("a", "int"), ("c", "int")})
OTHER: Columns = frozenset({("a", "int"), ("c", "text")})
SCHEMAS = (NARROW, WIDE, OTHER)


class Folder(NamedTuple):
    """log: the message of each batch. planned, committed: how many batches the checkpoint has.

    claim: which start claimed it. life: id of its checkpoint; 0 before its first start.
    Columns are not recorded: a folder that is restored would know fewer than the table has.
    """

    log: tuple[str, ...] = ()
    planned: int = 0
    committed: int = 0
    claim: int = 0
    life: int = 0


class Row(NamedTuple):
    batch: int
    message: str
    columns: Columns


class Process(NamedTuple):
    """number: of its start. step: what it has done of this batch. message: what the batch has."""

    folder: int
    columns: Columns
    number: int
    step: str
    batch: int = -1
    message: str = ""


class World(NamedTuple):
    """has_batches: for each id of a checkpoint that the sink tells from others (the file sink: for
    0), how many batches the table has of it. owner: the folder that the table's note names.
    chances: what may still happen to the world, each once.
    """

    sent: frozenset[str]
    queue: frozenset[str]
    folders: tuple[Folder, Folder | None] = (Folder(), None)
    table: tuple[Row, ...] = ()
    has_batches: tuple[tuple[int, int], ...] = ()
    owner: str = ""
    processes: tuple[Process | None, Process | None] = (None, None)
    snapshot: Folder | None = None
    removed: frozenset[str] = frozenset()
    chances: frozenset[str] = frozenset()
    starts: int = 0


PATHS = ("here", "copy")


def put(pair: tuple, place: int, value: object) -> tuple:
    return (value, pair[1]) if place == 0 else (pair[0], value)


def of_sink(world: World, folder: Folder) -> int:
    """The id by which the sink knows the batches of this folder."""
    return folder.life if "delta" in world.chances else 0


def may_start(world: World, place: int, columns: Columns, rules: frozenset[str]) -> bool:
    """The checks of a start: they read, and lease nothing."""
    folder = world.folders[place]
    assert folder
    batches = dict(world.has_batches)
    has_batches = batches.get(of_sink(world, folder), 0)
    if FOLDER_LOST in rules and not folder.life and world.owner == PATHS[place]:
        return False
    if OWNER in rules and world.owner not in ("", PATHS[place]):
        return False
    if AHEAD in rules and has_batches > folder.planned:
        return False
    if BEHIND in rules and has_batches < folder.committed:
        return False
    return COLUMNS not in rules or not world.table or world.table[-1].columns <= columns


def started(world: World, place: int, slot: int, columns: Columns, rules: frozenset[str]) -> World:
    folder = world.folders[place]
    assert folder
    number = world.starts + 1
    folder = folder._replace(claim=number, life=folder.life or number)
    step, batch = "committed", folder.committed - 1
    if folder.planned > folder.committed:
        step, batch = "planned", folder.planned - 1
    elif len(folder.log) > folder.planned:
        step, batch = "logged", folder.planned
    message = folder.log[batch] if batch >= 0 else ""
    process = Process(place, columns, number, step, batch, message)
    return world._replace(
        folders=put(world.folders, place, folder),
        processes=put(world.processes, slot, process),
        owner=world.owner or (PATHS[place] if NOTE_FIRST in rules else ""),
        starts=number,
    )


def next_steps(world: World, slot: int, rules: frozenset[str]) -> Iterator[World]:
    """What a process may do next."""
    process = world.processes[slot]
    assert process
    place, batch = process.folder, process.batch
    folder = world.folders[place]
    assert folder
    stopped = world._replace(processes=put(world.processes, slot, None))

    def then(moved: Process, found: World = world, of: Folder = folder) -> World:
        return found._replace(
            folders=put(found.folders, place, of), processes=put(found.processes, slot, moved)
        )

    if process.step == "idle":
        if CLAIM in rules and folder.claim != process.number:
            yield stopped
            return
        batch += 1
        for message in world.queue - {process.message}:
            log = (*folder.log[:batch], message, *folder.log[batch + 1 :])
            took = process._replace(step="logged", batch=batch, message=message)
            yield then(took, of=folder._replace(log=log))
    elif process.step == "logged":
        if folder.planned > batch:  # Spark: a concurrent update of the log of offsets
            yield stopped
        else:
            planned = folder._replace(planned=batch + 1)
            yield then(process._replace(step="planned"), of=planned)
    elif process.step == "planned":
        given = {process.message} if SAME_ROWS in rules else world.queue or {process.message}
        for message in given:
            rows = (Row(batch, message, process.columns),)
            table, known, life = world.table, dict(world.has_batches), of_sink(world, folder)
            if ONE_OUTPUT not in rules and message == "b":
                table = (*table, *rows)  # an output of its own knows no numbers
                rows = ()
            if batch >= known.get(life, 0):
                table, known[life] = (*table, *rows), batch + 1
            sunk = process._replace(step="sunk", message=message)
            has_batches = tuple(sorted(known.items()))
            yield then(sunk, world._replace(table=table, has_batches=has_batches))
    elif process.step == "sunk":
        if folder.committed > batch:  # Spark: a concurrent update of the log of commits
            yield stopped
            return
        noted = world._replace(owner=world.owner or PATHS[place])
        after = folder._replace(committed=batch + 1)
        yield then(process._replace(step="committed"), noted, after)
    elif process.step == "committed":
        left = world.queue - {process.message}
        yield then(process._replace(step="idle"), world._replace(queue=left))


def happens(world: World, slot: int) -> Iterator[World]:
    """What others do to a job that is stopped, each once."""
    here = world.folders[0]
    chances = world.chances
    if "copied" in chances and here.planned:
        yield world._replace(folders=(here, here), chances=chances - {"copied"})
    if any(world.processes):
        return
    if "restored" in chances and world.snapshot is None:
        yield world._replace(snapshot=here)
    if "restored" in chances and world.snapshot is not None:
        folders = (world.snapshot, world.folders[1])
        yield world._replace(folders=folders, chances=chances - {"restored"})
    if "rolled back" in chances and here.planned:
        back = here._replace(
            planned=here.planned - 1, committed=min(here.committed, here.planned - 1)
        )
        yield world._replace(folders=(back, world.folders[1]), chances=chances - {"rolled back"})
    if "folder removed" in chances:
        folders = (Folder(claim=here.claim), world.folders[1])
        yield world._replace(folders=folders, chances=chances - {"folder removed"})
    if "table removed" in chances:
        had = frozenset(row.message for row in world.table)
        yield world._replace(
            table=(),
            has_batches=(),
            owner="",
            removed=world.removed | had,
            chances=chances - {"table removed"},
        )


def broken(world: World) -> str:
    """The promise that does not hold, "" if all do."""
    has = [row.message for row in world.table]
    if len(set(has)) < len(has):
        return "twice"
    logged = {
        message for folder in world.folders if folder for message in folder.log[folder.committed :]
    }
    if world.sent - set(has) - world.queue - world.removed - logged:
        return "lost"
    kinds = {column for row in world.table for column in row.columns}
    if len({name for name, _ in kinds}) < len(kinds):
        return "two types"
    later = [(a, b) for a in world.table for b in world.table if a.batch < b.batch]
    if any(not a.columns <= b.columns for a, b in later):
        return "a column ends"
    batches = {row.batch for row in world.table}
    if world.table and batches != set(range(len(batches))):
        return "earlier batches are missing"
    return ""


def search(
    sent: str,
    chances: frozenset[str],
    schemas: tuple[Columns, ...],
    rules: frozenset[str],
    enough: str = "",
) -> set[str]:
    """The promises that break in some history. enough: end with the first that breaks this one."""
    second = Folder() if "second folder" in chances else None
    queue = frozenset(sent)
    first = World(queue, queue, (Folder(), second), chances=chances)
    seen, todo, found = {first}, [first], set()
    while todo:
        world = todo.pop()
        if why := broken(world):
            found.add(why)
            if why == enough:
                break
            continue
        following = []
        for slot in (0, 1):
            process = world.processes[slot]
            if process is None:
                place = 0 if "two processes" in chances else slot
                if world.folders[place] is not None and world.starts < 5:
                    following += [
                        started(world, place, slot, columns, rules)
                        for columns in schemas
                        if may_start(world, place, columns, rules)
                    ]
            else:
                following += next_steps(world, slot, rules)
                killed = put(world.processes, slot, None)
                following.append(world._replace(processes=killed))
        following += happens(world, 0)
        todo += set(following) - seen
        seen |= set(following)
    return found


SCENES = {
    "changed columns": ("gb", frozenset[str](), SCHEMAS),
    "restored": ("gb", frozenset({"restored"}), (NARROW,)),
    "rolled back and restored": ("gb", frozenset({"rolled back", "restored"}), (NARROW,)),
    "removed": ("gb", frozenset({"folder removed", "table removed"}), (NARROW,)),
    "restored, with a column more": ("gb", frozenset({"restored"}), (NARROW, WIDE)),
    "copied, both run": ("gbh", frozenset({"copied"}), (NARROW,)),
    "removed and restored": ("gbh", frozenset({"folder removed", "restored"}), (NARROW,)),
    "removed and restored, Delta": (
        "gb",
        frozenset({"folder removed", "restored", "delta"}),
        (NARROW,),
    ),
    "two folders": ("gb", frozenset({"second folder"}), (NARROW,)),
    "two folders, Delta": ("gb", frozenset({"second folder", "delta"}), (NARROW,)),
    "removed, Delta": ("gb", frozenset({"folder removed", "table removed", "delta"}), (NARROW,)),
    "restored, Delta": ("gb", frozenset({"restored", "rolled back", "delta"}), (NARROW,)),
    "started twice": ("gb", frozenset({"two processes"}), (NARROW,)),
}


@pytest.mark.parametrize("scene", SCENES)
def test_no_history_breaks_a_promise(scene: str) -> None:
    assert search(*SCENES[scene], RULES) == set()


@pytest.mark.parametrize(
    ("rule", "scene", "promise"),
    [
        (AHEAD, "restored", "lost"),
        (AHEAD, "rolled back and restored", "lost"),
        (BEHIND, "removed", "earlier batches are missing"),
        (OWNER, "copied, both run", "lost"),
        (OWNER, "two folders", "lost"),
        (OWNER, "two folders, Delta", "twice"),
        (NOTE_FIRST, "two folders", "lost"),
        (NOTE_FIRST, "copied, both run", "lost"),
        (FOLDER_LOST, "removed, Delta", "twice"),
        (FOLDER_LOST, "removed and restored", "lost"),
        (FOLDER_LOST, "removed and restored, Delta", "twice"),
        (COLUMNS, "changed columns", "two types"),
        (COLUMNS, "changed columns", "a column ends"),
        (ONE_OUTPUT, "changed columns", "twice"),
        (SAME_ROWS, "changed columns", "lost"),
        (CLAIM, "started twice", "lost"),
    ],
)
def test_without_a_rule_a_promise_breaks(rule: str, scene: str, promise: str) -> None:
    assert promise in search(*SCENES[scene], RULES - {rule}, promise)
