"""The write-ahead log in files: whole or not at all, whatever happens in between."""

import errno
import os
import stat
import threading
import time
from types import SimpleNamespace

import pytest
from world.turns import Killed

from spark_azqueue.errors import LogConflict, LogUnavailable
from spark_azqueue.journal import file_store as files
from spark_azqueue.journal import file_system
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.identity import opened
from spark_azqueue.service.names import EXECUTORS, FILES, TRANSACTIONS, WRITE_AHEAD

STEPS = ("open", "write", "fsync", "close", "link", "unlink", "mkdir", "scandir", "listdir")
DATA = b"0123456789" * 1000


@pytest.fixture
def root(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def store(root):
    made = FileStore(str(root))
    made.open()
    return made


def failing(monkeypatch, step, number, *, name=""):
    """Let `os.<step>` fail with this errno, for paths that contain `name`."""
    real = getattr(os, step)

    def fail(*given, **named):
        if name in str(given[-1] if step == "link" else given[0]):
            raise OSError(number, os.strerror(number))
        return real(*given, **named)

    monkeypatch.setattr(os, step, fail)


def left(root):
    """All files below the folder, by relative name."""
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


# ── killed between two steps ──────────────────────────────────────────────────────────────────────


class Dying:
    """Lets the process die at the `at`-th step: before it, or after its effect."""

    def __init__(self, monkeypatch, at, after):
        self.seen, self._at, self._after = [], at, after
        for step in STEPS:
            monkeypatch.setattr(os, step, self._wrapped(step, getattr(os, step)))

    def _wrapped(self, step, real):
        def call(*given, **named):
            if self._at is not None and len(self.seen) > self._at:
                raise Killed  # nothing of this process happens any more
            self.seen.append(step)
            dies = len(self.seen) - 1 == self._at
            if dies and not self._after:
                self.seen.append("dead")
                raise Killed
            if step == "write":
                given = (given[0], given[1][: max(1, len(given[1]) // 2)])
            done = real(*given, **named)
            if dies:
                self.seen.append("dead")
                raise Killed
            return done

        return call


def steps_of_a_put(root):
    with pytest.MonkeyPatch.context() as patch:
        dying = Dying(patch, None, False)
        assert FileStore(str(root)).put_new("seg/1", DATA) is True
    return dying.seen


def test_the_order_of_a_put(store, root):
    seen = [step for step in steps_of_a_put(root) if step != "write"]

    # The folder and the one above it; the file; its name; the temporary name; the folder.
    assert seen == [
        *("mkdir", "open", "fsync", "close"),
        *("open", "fsync", "close"),
        *("link", "unlink"),
        *("open", "fsync", "close"),
    ]


@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_is_killed_leaves_a_whole_file_or_none(tmp_path, after):
    sample = tmp_path / "sample"
    FileStore(str(sample)).open()
    states = []
    for at in range(len(steps_of_a_put(sample))):
        root = tmp_path / f"{after}-{at}"
        FileStore(str(root)).open()
        with pytest.MonkeyPatch.context() as patch:
            Dying(patch, at, after)
            with pytest.raises(Killed):
                FileStore(str(root)).put_new("seg/1", DATA)

        again = FileStore(str(root))
        again.open()
        found = again.get("seg/1", 10**6)
        assert found in (None, DATA)
        assert again.names("seg") == ([] if found is None else ["seg/1"])
        states.append(found is not None)
        assert again.put_new("seg/1", b"other") is (found is None)
        again.sweep()
        assert left(root) == ["seg/1"]
    assert states == sorted(states), "once it is there, it stays"
    assert set(states) == {False, True}


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("step", ["open", "write", "fsync", "close"])
def test_what_fails_before_the_name_is_made_has_no_effect(store, root, monkeypatch, step, number):
    store.put_new("seg/0", b"")
    if step in ("write", "fsync", "close"):
        real = getattr(os, step)

        def fail(*given):
            if step == "close":
                real(*given)
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, step, fail)
    else:
        failing(monkeypatch, step, number, name=".tmp-")
    with pytest.raises(LogUnavailable, match=errno.errorcode[number]) as caught:
        store.put_new("seg/1", DATA)
    monkeypatch.undo()

    assert not caught.value.may_have_taken_effect
    assert left(root) == ["seg/0"], "the temporary file is removed"


@pytest.mark.parametrize(
    ("number", "may"),
    [
        *((errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EROFS, False)),
        *((errno.EACCES, False), (errno.EPERM, False), (errno.EMLINK, False)),
        *((errno.EIO, True), (errno.ESTALE, True), (errno.ETIMEDOUT, True), (errno.ENOENT, True)),
    ],
)
def test_a_link_that_fails_may_have_been_made_if_the_server_says_nothing_definite(
    store, root, monkeypatch, number, may
):
    failing(monkeypatch, "link", number)
    with pytest.raises(LogUnavailable, match=errno.errorcode[number]) as caught:
        store.put_new("seg/1", DATA)

    assert caught.value.may_have_taken_effect is may
    assert left(root) == []


def test_a_folder_that_cannot_be_synced_leaves_the_effect_unknown(store, root, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "sync_folder", fail)
    with pytest.raises(LogUnavailable, match=r"could not write .*/seg/1 .*: EIO") as caught:
        store.put_new("seg/1", DATA)

    assert caught.value.may_have_taken_effect
    assert store.get("seg/1", 10**6) == DATA


def test_a_name_that_exists_is_synced_too(store, monkeypatch):
    store.put_new("seg/1", DATA)
    synced = []
    monkeypatch.setattr(files, "sync_folder", synced.append)

    assert store.put_new("seg/1", DATA) is False
    assert [path.rpartition("/")[2] for path in synced] == ["seg"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Make room there"),
        (errno.EDQUOT, "raise the quota"),
        (errno.EROFS, "Mount it for writing"),
        (errno.EACCES, "Let the user of the driver's process read and write there"),
        (errno.EIO, "Check the disk, or the server that holds it"),
    ],
)
def test_an_error_names_the_file_and_what_to_do(store, root, monkeypatch, number, advice):
    monkeypatch.setattr(
        file_system.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(number, "why"))
    )
    with pytest.raises(LogUnavailable) as caught:
        store.put_new("seg/1", DATA)

    name = errno.errorcode[number]
    assert f"could not write {root}/seg/1 of the write-ahead log: {name} (why)." in str(
        caught.value
    )
    assert advice in str(caught.value)


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


def test_folders_are_made_for_this_user_alone(tmp_path):
    store = FileStore(str(tmp_path / "logs" / "orders"))
    store.open()
    store.put_new("seg/1", b"x")

    for path in ("logs", "logs/orders", "logs/orders/seg"):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "logs/orders/seg/1").stat().st_mode) == 0o600
    assert left(tmp_path) == ["logs/orders/seg/1"], "the probe leaves nothing"


def test_a_folder_that_exists_keeps_its_mode(root):
    root.mkdir(mode=0o755)
    FileStore(str(root)).open()

    assert stat.S_IMODE(root.stat().st_mode) == 0o755


def test_no_more_than_two_folders_are_made(tmp_path):
    with pytest.raises(LogUnavailable, match=r"ENOENT .*Is the disk mounted"):
        FileStore(str(tmp_path / "a" / "b" / "c")).open()

    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV])
def test_a_file_system_without_link_is_refused(root, monkeypatch, number):
    failing(monkeypatch, "link", number)
    with pytest.raises(LogUnavailable, match="cannot create a file only if it does not") as caught:
        FileStore(str(root)).open()

    assert errno.errorcode[number] in str(caught.value)
    assert "writeAheadLog=blob:<container>/<folder>" in str(caught.value)
    assert left(root) == []


def test_a_file_system_whose_link_overwrites_is_refused(root, monkeypatch):
    monkeypatch.setattr(os, "link", lambda first, second: open(second, "wb").close())
    with pytest.raises(LogUnavailable, match="a second link"):
        FileStore(str(root)).open()

    assert left(root) == []


def test_another_failure_of_the_probe_is_told_as_it_is(root, monkeypatch):
    failing(monkeypatch, "link", errno.EIO)
    with pytest.raises(LogUnavailable, match=r"could not open .*: EIO"):
        FileStore(str(root)).open()


def test_a_file_in_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "log"):
        with pytest.raises(LogUnavailable, match=r"ENOTDIR .*Name a folder in the option"):
            FileStore(str(path)).open()


def test_a_folder_that_may_not_be_written_is_told(root, monkeypatch):
    root.mkdir()
    failing(monkeypatch, "open", errno.EACCES, name=".tmp-")
    with pytest.raises(LogUnavailable, match=r"EACCES .*Let the user"):
        FileStore(str(root)).open()


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_may_not_be_read_is_no_empty_log(store, monkeypatch):
    store.put_new("seg/1", b"x")
    failing(monkeypatch, "scandir", errno.EACCES)
    with pytest.raises(LogUnavailable, match=r"could not list .*EACCES"):
        store.names("seg")


def test_a_log_whose_folder_is_gone_is_no_empty_log(store, root):
    root.rmdir()

    for call in (lambda: store.names("seg"), lambda: store.get("log.json", 10)):
        with pytest.raises(LogUnavailable, match=r"ENOENT .*Is the disk mounted"):
            call()
    with pytest.raises(LogUnavailable) as caught:
        store.put_new("seg/1", b"x")
    assert not caught.value.may_have_taken_effect
    assert not root.exists(), "a put does not make the log's folder"


def test_a_folder_with_the_name_of_a_file_is_told(store, root):
    (root / "seg" / "1").mkdir(parents=True)

    with pytest.raises(LogUnavailable, match="EISDIR"):
        store.get("seg/1", 10)


def test_names_that_are_not_ours_are_left_out(store, root):
    store.put_new("seg/1", b"x")
    for name in (".tmp-1", ".nfs0001", "1.crc", "_x", "é", "a b"):
        (root / "seg" / name).write_bytes(b"")

    assert store.names("seg") == ["seg/1"]


def test_too_many_names_are_an_error(store, monkeypatch):
    monkeypatch.setattr(files, "MOST_NAMES", 3)
    for n in range(3):
        store.put_new(f"seg/{n}", b"")
    assert len(store.names("seg")) == 3

    store.put_new("seg/3", b"")
    with pytest.raises(LogUnavailable, match="it has more than 3 names"):
        store.names("seg")


def test_a_listing_and_an_absent_file_are_looked_up_anew(store, monkeypatch):
    store.put_new("seg/1", b"x")
    changed = []
    monkeypatch.setattr(files, "refresh", changed.append)

    store.names("seg")
    assert len(changed) == 1
    assert store.get("seg/1", 1) == b"x"
    assert len(changed) == 1
    assert store.get("seg/2", 1) is None
    assert len(changed) == 2


def test_a_file_that_another_machine_replaced_is_read_again(store, monkeypatch):
    store.put_new("seg/1", b"x")
    real, answers = files.read_start, [OSError(errno.ESTALE, "Stale file handle")]

    def read(path, most):
        if answers:
            raise answers.pop()
        return real(path, most)

    monkeypatch.setattr(files, "read_start", read)
    assert store.get("seg/1", 10) == b"x"

    answers += [OSError(errno.ESTALE, "Stale"), OSError(errno.ESTALE, "Stale")]
    with pytest.raises(LogUnavailable, match="ESTALE"):
        store.get("seg/1", 10)


def test_reading_goes_on_after_a_short_read(store, monkeypatch):
    store.put_new("seg/1", DATA)

    class Slow:
        def __init__(self, file):
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

        def read(self, most):
            return self._file.read(min(most, 7))

    real = open
    monkeypatch.setattr(
        file_system, "open", lambda *given, **named: Slow(real(*given, **named)), raising=False
    )
    assert store.get("seg/1", 10**6) == DATA
    assert store.get("seg/1", 20) == DATA[:20]


TMP_OLD, TMP_NEW, TMP_TOP, TMP_KILLED, TMP_AT_WORK = (f".tmp-{digit * 32}" for digit in "1234a")


# ── left-overs ────────────────────────────────────────────────────────────────────────────────────


def test_a_sweep_removes_what_is_old_enough(store, root):
    store.put_new("seg/1", b"x")
    old, new, top = root / "seg" / TMP_OLD, root / "seg" / TMP_NEW, root / TMP_TOP
    for path in (old, new, top):
        path.write_bytes(b"")
    os.utime(old, (0, 0))

    store.sweep(older_than_s=86_400)
    assert left(root) == [TMP_TOP, f"seg/{TMP_NEW}", "seg/1"]
    store.sweep()
    assert left(root) == ["seg/1"]


def test_a_sweep_never_raises(root):
    FileStore(str(root)).sweep()


def test_a_sweep_during_a_put_makes_it_fail_and_leaves_no_file(store, root, monkeypatch):
    real = files.write_new

    def write(path, data):
        real(path, data)
        FileStore(str(root)).sweep()

    store.put_new("seg/0", b"")
    monkeypatch.setattr(files, "write_new", write)
    with pytest.raises(LogUnavailable, match="ENOENT"):
        store.put_new("seg/1", DATA)
    assert left(root) == ["seg/0"]


def test_puts_of_many_threads_make_one_folder(store, root):
    failed = []

    def put(n):
        try:
            store.put_new(f"seg/{n}", b"x")
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(store.names("seg")) == 8


# ── what somebody else put there ──────────────────────────────────────────────────────────────────


@pytest.fixture
def elsewhere(tmp_path):
    """A folder of somebody else, with files as a log has them."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("1", "2", TMP_OLD):
        (folder / name).write_bytes(b"precious")
    os.utime(folder / TMP_OLD, (0, 0))
    return folder


@pytest.mark.parametrize("name", ["log.json", "seg/1", "claims/1", "marks/1", "outcomes/1"])
def test_a_pipe_in_place_of_a_file_is_told_and_not_waited_for(store, root, name):
    (root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(root / name)

    with pytest.raises(LogUnavailable, match=r"could not read .*EINVAL .*the pipe or the device"):
        store.get(name, 10)
    assert store.put_new(name, DATA) is False
    assert [each.size for each in store.entries("seg")] in ([], [0])


def test_a_pipe_in_place_of_a_folder_is_told_and_not_waited_for(store, root):
    os.mkfifo(root / "seg")

    for call in (
        lambda: store.put_new("seg/1", DATA),
        lambda: store.get("seg/1", 10),
        lambda: store.names("seg"),
        lambda: store.delete("seg/1"),
    ):
        with pytest.raises(LogUnavailable, match="ENOTDIR"):
            call()
    store.sweep()


@pytest.mark.parametrize("target", ["elsewhere/1", "nowhere", "/dev/zero"])
def test_a_link_in_place_of_a_file_is_not_followed(store, root, tmp_path, elsewhere, target):
    (root / "seg").mkdir()
    (root / "seg" / "1").symlink_to(tmp_path / target)

    with pytest.raises(LogUnavailable, match=r"ELOOP .*Remove the symbolic link"):
        store.get("seg/1", 10)
    assert store.put_new("seg/1", DATA) is False
    store.delete("seg/1")
    assert store.names("seg") == []
    assert (elsewhere / "1").read_bytes() == b"precious"


def test_a_link_in_place_of_a_folder_leads_nothing_elsewhere(store, root, elsewhere):
    (root / "seg").symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())

    for call in (
        lambda: store.put_new("seg/3", DATA),
        lambda: store.get("seg/1", 10),
        lambda: store.names("seg"),
        lambda: store.entries("seg"),
        lambda: store.delete("seg/1"),
    ):
        with pytest.raises(LogUnavailable, match=r"ELOOP .*Remove the symbolic link"):
            call()
    store.sweep()

    assert sorted(elsewhere.iterdir()) == before


def test_a_folder_that_becomes_a_link_in_the_middle_leads_no_delete_elsewhere(
    store, root, elsewhere, monkeypatch
):
    """The folder is replaced right after it was checked."""
    store.put_new("seg/1", b"x")

    def replace(folder):
        os.rename(folder, f"{folder}-real")
        os.symlink(elsewhere, folder)

    monkeypatch.setattr(files, "check_real", replace)
    with pytest.raises(LogUnavailable):
        store.delete("seg/1")

    assert (elsewhere / "1").read_bytes() == b"precious"


def test_the_folder_of_the_log_may_be_reached_by_a_link(root, tmp_path):
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    store = FileStore(str(tmp_path / "link"))
    store.open()

    assert store.put_new("log.json", b"x")
    assert store.put_new("seg/1", b"x")
    (root / TMP_OLD).write_bytes(b"")
    store.sweep()
    store.delete("seg/1")
    assert left(root) == ["log.json"]


# ── what killed processes leave behind ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [WRITE_AHEAD, EXECUTORS, TRANSACTIONS, FILES])
def test_every_kind_of_log_sweeps_at_its_start_what_nobody_completes(root, kind):
    """All of them begin with `opened`."""
    store = FileStore(str(root), kind)
    opened(store, "acc", "seg")
    store.put_new("slots/one", b"whole")
    now = time.time()
    for folder in (root, root / "slots"):
        for name, age_s in ((TMP_KILLED, 3_700), (TMP_AT_WORK, 3_500), ("other", 9_999)):
            (folder / name).write_bytes(b"a body")
            os.utime(folder / name, (now - age_s, now - age_s))

    opened(FileStore(str(root), kind), "acc", "seg")

    for folder in (root, root / "slots"):
        assert not (folder / TMP_KILLED).exists()
        assert (folder / TMP_AT_WORK).exists(), "another process may be at work"
        assert (folder / "other").exists()
    assert store.get("slots/one", 10) == b"whole"


def test_files_of_other_programs_are_not_swept(root):
    """Neither by their names, nor in a folder that was no log before."""
    root.mkdir()
    others = [root / ".tmp-x", root / f".tmp-{'A' * 32}", root / f"{TMP_KILLED}0"]
    before = root / TMP_KILLED
    for path in (*others, before):
        path.write_bytes(b"of another program")
        os.utime(path, (0, 0))

    opened(FileStore(str(root), FILES), "acc", "seg")
    assert before.exists()
    opened(FileStore(str(root), FILES), "acc", "seg")

    assert [path.exists() for path in (*others, before)] == [True, True, True, False]


@pytest.mark.parametrize("at", [-5.0, 253_402_300_800.0, 1e18])
def test_a_time_that_no_clock_shows_is_unknown(store, root, at, monkeypatch):
    """Whoever may write here can set it, and some file systems keep any number."""
    store.put_new("seg/1", b"x")
    real = os.lstat

    def lstat(path):
        found = real(path)
        return SimpleNamespace(st_mode=found.st_mode, st_size=found.st_size, st_mtime=at)

    monkeypatch.setattr(os, "lstat", lstat)
    assert [each.written for each in store.entries("seg")] == [0.0]


def test_a_folder_of_another_kind_is_not_swept(root):
    opened(FileStore(str(root), FILES), "acc", "seg")
    left = root / TMP_KILLED
    left.write_bytes(b"a body")
    os.utime(left, (0, 0))

    with pytest.raises(LogConflict):
        opened(FileStore(str(root), WRITE_AHEAD), "acc", "seg")

    assert left.exists()
