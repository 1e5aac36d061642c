"""What the supervisor tells the source's next process about the last error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_azqueue.service import beside_jvm, last_failure

PID = 4321
OFFSET = {"version": 2, "batch": 7, "segment": "0123456789abcdef", "messages": 5}
TEXT = f"a batch failed\nCurrent Available Offsets: {{Reader: {json.dumps(OFFSET)}}}"
"""As Spark shows it, with blanks."""


@pytest.fixture(autouse=True)
def _beside_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: PID))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(ProcessHandle=handle)))
    spark = SimpleNamespace(SparkContext=SimpleNamespace(_jvm=jvm))
    monkeypatch.setitem(sys.modules, "pyspark", spark)  # type: ignore[arg-type]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def the_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_the_next_process_finds_the_error_of_its_batch(tmp_path: Path) -> None:
    last_failure.leave("ValueError: no such id (raised in parse, job.py, line 7)", TEXT)

    assert last_failure.found(OFFSET, PID) == (
        "ValueError: no such id (raised in parse, job.py, line 7)"
    )
    assert last_failure.found({**OFFSET, "segment": "f" * 16}, PID) == "", "another query's"
    assert last_failure.found(OFFSET, PID + 1) == "", "beside another JVM"
    assert last_failure.found(OFFSET) == ""
    assert the_file(tmp_path).stat().st_mode & 0o777 == 0o600


def test_the_errors_of_several_batches_are_kept_and_bounded(tmp_path: Path) -> None:
    for number in range(40):
        last_failure.leave(f"error {number} " + "x" * 9_000, f'"nonce":"{number:032x}"')
    assert last_failure.found('"nonce":"' + f"{39:032x}", PID).startswith("error 39")
    assert last_failure.found('"nonce":"' + f"{0:032x}", PID) == ""
    assert the_file(tmp_path).stat().st_size < 20_000


def test_secrets_and_lines_are_no_part_of_it(tmp_path: Path) -> None:
    last_failure.leave(f"KeyError: AccountKey={'k' * 40};\nForged line", TEXT)
    assert "k" * 40 not in the_file(tmp_path).read_text()
    assert "\n" not in last_failure.found(OFFSET, PID)


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"0123456789abcdef":7}', b"x" * 70_000])
def test_what_it_did_not_write_is_not_used(tmp_path: Path, data: bytes) -> None:
    last_failure.leave("error", TEXT)
    the_file(tmp_path).write_bytes(data)
    assert last_failure.found(OFFSET, PID) == ""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    last_failure.leave("error", TEXT)
    file = the_file(tmp_path)
    moved = tmp_path / "elsewhere"
    file.rename(moved)
    file.symlink_to(moved)
    assert last_failure.found(OFFSET, PID) == ""
    last_failure.leave("newer", TEXT)
    assert not file.is_symlink()
    assert json.loads(moved.read_text()) == {"0123456789abcdef": "error"}


def test_without_a_jvm_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark")
    last_failure.leave("error", TEXT)
    assert os.listdir(tmp_path) == []


def test_a_failure_without_an_offset_leaves_nothing(tmp_path: Path) -> None:
    last_failure.leave("error", "the service is away")
    assert os.listdir(tmp_path) == []


def test_a_pipe_at_its_place_is_not_waited_for(tmp_path: Path) -> None:
    """Anyone can put one into the temporary folder: its name can be guessed."""
    last_failure.leave("error", TEXT)
    file = the_file(tmp_path)
    file.unlink()
    os.mkfifo(file)
    assert last_failure.found(OFFSET, PID) == ""
    last_failure.leave("newer", TEXT)
    assert last_failure.found(OFFSET, PID) == "newer"


def test_files_of_jvms_that_have_ended_are_removed(tmp_path: Path) -> None:
    """Also of one whose number another process has by now; other files stay."""
    mine = beside_jvm.file_of(os.getpid(), ".json")
    reused = tmp_path / f"spark-azqueue-{os.getuid()}-{os.getpid()}-1.json"
    ended = tmp_path / f"spark-azqueue-{os.getuid()}-{2**22 + 1}-77.json"
    others = tmp_path / f"spark-azqueue-{os.getuid() + 1}-{2**22 + 1}-77.json"
    for file in (mine, reused, ended, others):
        file.touch()
    last_failure.leave("error", TEXT)
    assert {*tmp_path.iterdir()} == {mine, others, beside_jvm.file_of(PID, ".json")}


def test_the_file_goes_with_the_process_that_left_it(tmp_path: Path) -> None:
    code = (
        "import sys; from types import SimpleNamespace as S;"
        "h = S(current=lambda: S(pid=lambda: 4321));"
        "sys.modules['pyspark'] = S(SparkContext=S(_jvm=S(java=S(lang=S(ProcessHandle=h)))));"
        "from spark_azqueue.service import last_failure as l; import os, tempfile;"
        f"l.leave('error', {TEXT!r}); print(os.listdir(tempfile.gettempdir()))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "spark-azqueue-" in ran.stdout
    assert os.listdir(tmp_path) == []
