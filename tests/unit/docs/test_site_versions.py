"""Sites of several versions beside each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from site_versions import add, newest, order


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("one")
    return folder


def test_versions_stand_beside_each_other_and_latest_is_the_newest(
    site: Path, tmp_path: Path
) -> None:
    versions = tmp_path / "versions"
    for version in ("0.2.0", "0.10.0", "0.9.1", "1.0.0rc1", "dev"):
        (site / "index.html").write_text(version)
        add(site, versions, version)

    listed = json.loads((versions / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["1.0.0rc1", "0.10.0", "0.9.1", "0.2.0", "dev"]
    assert [each["version"] for each in listed if each["aliases"] == ["latest"]] == ["0.10.0"]
    assert (versions / "latest" / "index.html").read_text() == "0.10.0"
    assert (versions / "0.2.0" / "index.html").read_text() == "0.2.0"
    assert "latest/" in (versions / "index.html").read_text()


def test_a_version_that_is_there_is_replaced(site: Path, tmp_path: Path) -> None:
    (site / "old.html").touch()
    add(site, tmp_path / "versions", "0.1.0")
    (site / "old.html").unlink()
    add(site, tmp_path / "versions", "0.1.0")

    assert not (tmp_path / "versions" / "0.1.0" / "old.html").exists()
    assert not (tmp_path / "versions" / "latest" / "old.html").exists()


def test_without_a_release_the_newest_of_the_others_is_latest() -> None:
    assert newest(["dev", "0.1.0rc1", "0.1.0rc2"]) == "0.1.0rc2"
    assert newest(["dev"]) == "dev"


@pytest.mark.parametrize("version", ["", "1.2", "../../x", "latest", "v0.1.0"])
def test_other_names_are_refused(version: str, site: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is neither a version"):
        order(version)
    with pytest.raises(ValueError, match="is neither a version"):
        add(site, tmp_path / "versions", version)
    assert not (tmp_path / "versions").exists()


def test_a_folder_without_a_site_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make docs-site"):
        add(tmp_path, tmp_path / "versions", "0.1.0")
