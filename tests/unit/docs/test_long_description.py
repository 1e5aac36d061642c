"""What the package index shows: the README, with links that lead to the repository."""

from __future__ import annotations

import re
import runpy
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from absolute_links import relative_links, with_absolute_links
from reference import repository_url
from release import tag_of, version_now
from release_check import description_of
from site_pages import REPOSITORY, links

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BASE = f"{repository_url()}/(blob|raw)/{re.escape(tag_of(version_now()))}/"


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py gives to setuptools, in which nothing is built."""
    given: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "setuptools", SimpleNamespace(setup=given.update))
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(REPOSITORY / "setup.py"), run_name="__main__")
    return given


def test_every_link_and_picture_leads_to_a_file_of_the_repository(metadata: dict[str, Any]) -> None:
    text = metadata["long_description"]
    targets = re.findall(rf"\]\({BASE}([^)#]+)[^)]*\)", text)

    assert not relative_links(text)
    assert not re.findall(r"<(?:img|a)\s", text), "in HTML no tool makes links absolute"
    assert len(targets) == len(links(README)) > 5
    for kind, path in targets:
        assert (REPOSITORY / path).is_file(), path
        assert (kind == "raw") == (Path(path).suffix in {".png", ".svg"}), path


def test_all_else_is_the_readme(metadata: dict[str, Any]) -> None:
    assert re.sub(rf"\]\({BASE}", "](", metadata["long_description"]) == README


def test_the_index_says_where_source_pages_changes_and_issues_are(metadata: dict[str, Any]) -> None:
    named = metadata["project_urls"]

    assert {"Source", "Documentation", "Changelog", "Issues"} <= named.keys()
    for url in named.values():
        assert url.startswith(repository_url())
        path = re.sub(f"^{BASE}", "", url)
        assert path == url or (REPOSITORY / path).is_file(), url


def test_links_lead_to_the_version_and_code_stays_as_it_is() -> None:
    text = "A [p](docs/api.md#settle), ![p](a/b.png), [![p](c.svg)](d.md), `[x](y)`\n"
    text += "```\n[x](y)\n```\n[e](https://example.org) and [here](#x).\n"

    assert relative_links(text) == ["docs/api.md#settle", "a/b.png", "c.svg", "d.md"]
    assert with_absolute_links(text, "https://h/o/r", "v0.2.0") == (
        "A [p](https://h/o/r/blob/v0.2.0/docs/api.md#settle), ![p](https://h/o/r/raw/v0.2.0/a/b.png),"
        " [![p](https://h/o/r/raw/v0.2.0/c.svg)](https://h/o/r/blob/v0.2.0/d.md), `[x](y)`\n"
        "```\n[x](y)\n```\n[e](https://example.org) and [here](#x).\n"
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[[str], Path]:
    def make(description: str) -> Path:
        path = tmp_path / "x.whl"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("x-1.dist-info/METADATA", f"Metadata-Version: 2.4\n\n{description}")
        return path

    return make


def test_a_release_looks_at_the_description_that_was_built(wheel: Callable[[str], Path]) -> None:
    assert description_of(wheel("é [x](https://h/x)")) == "é [x](https://h/x)"
    with pytest.raises(ValueError, match=r"without a host: \['docs/x\.md'\]"):
        description_of(wheel("[x](docs/x.md)"))
    with pytest.raises(ValueError, match="no description"):
        description_of(wheel(""))
