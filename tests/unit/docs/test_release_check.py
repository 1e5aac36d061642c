"""What a release publishes: notes, the recipe for conda, the citation, and who may do what."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from release import REPOSITORY, version_now
from release_check import (
    check_recipe,
    filled_recipe,
    names_a_path,
    notes,
    problems_of_tag,
)

CHANGELOG = """# Changelog

## [Unreleased]

- Next.

## [0.2.0] - 2026-12-31

- A [page](docs/api.md#settle), [another](https://example.org) and [here](#x).

## [0.1.0]

- No date.
"""
ZEROS = "0" * 64
RECIPE = (REPOSITORY / "deploy" / "conda" / "recipe.yaml").read_text(encoding="utf-8")


def test_a_tag_needs_its_version_and_a_dated_section() -> None:
    readme = "pip install it"
    assert problems_of_tag("v0.2.0", "0.2.0", CHANGELOG, readme) == []
    assert len(problems_of_tag("v0.2.1", "0.2.0", CHANGELOG, readme)) == 1
    assert len(problems_of_tag("v0.1.0", "0.1.0", CHANGELOG, readme)) == 1
    assert len(problems_of_tag("v9", "0.3.0", CHANGELOG, readme)) == 2


def test_what_is_released_is_not_called_unreleased() -> None:
    (problem,) = problems_of_tag("v0.2.0", "0.2.0", CHANGELOG, "Not\non PyPI yet.")

    assert "README.md" in problem


def test_the_notes_are_the_section_and_without_one_what_is_unreleased() -> None:
    assert notes(CHANGELOG, "0.2.0").startswith("- A [page]")
    assert notes(CHANGELOG, "0.3.0") == "- Next.\n"
    with pytest.raises(ValueError, match=r"says nothing of 0\.3\.0"):
        notes("# Changelog\n", "0.3.0")


def test_this_changelog_gives_notes() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")

    assert len(notes(changelog, version_now())) > 100


def test_a_path_in_a_bill_of_materials_is_noticed() -> None:
    assert names_a_path('{"url": "file:///home/x/spark_azqueue.whl"}')
    assert names_a_path(f'{{"value": "{REPOSITORY}/dist"}}')
    assert not names_a_path('{"purl": "pkg:pypi/spark-azqueue@0.1.0"}')


def test_the_recipe_is_filled_in() -> None:
    text = filled_recipe(RECIPE, "1.2.3", "ab" * 32)
    recipe = yaml.safe_load(text)

    assert recipe["context"]["version"] == "1.2.3"
    assert recipe["source"]["sha256"] == "ab" * 32
    assert ZEROS not in text
    with pytest.raises(ValueError, match="one version"):
        filled_recipe(text, "1.2.3", "ab" * 32)


def test_the_recipe_requires_what_the_package_requires() -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    wanted = {"python" + config["options"]["python_requires"]}
    wanted |= set(config["options"]["install_requires"].split())
    recipe = yaml.safe_load(RECIPE)

    assert {each.replace(" ", "") for each in recipe["requirements"]["run"]} == wanted
    assert recipe["about"]["summary"] == config["metadata"]["description"].replace(": a", ", a")
    backend = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    (setuptools,) = re.findall(r'requires = \["setuptools(\S+)"\]', backend)
    assert f"setuptools {setuptools}" in recipe["requirements"]["host"]


def test_the_citation_has_what_its_format_needs() -> None:
    """Citation File Format 1.2.0: these keys, and types of software, person or entity."""
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))

    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert citation["type"] == "software"
    assert all(author["name"] for author in citation["authors"])
    assert citation["license"] == "Apache-2.0"


RELEASE = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text(encoding="utf-8"))


def test_only_a_tag_publishes_and_only_what_was_checked() -> None:
    jobs = RELEASE["jobs"]
    runs = [step.get("run", "") for step in jobs["build"]["steps"]]

    assert RELEASE[True]["push"] == {"tags": ["v*"]}  # YAML 1.1 reads `on` as true
    assert any(run.startswith("make release-check") for run in runs)
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert jobs["publish"]["needs"] == "build"
    assert jobs["release"]["needs"] == jobs["site"]["needs"] == "publish"


def test_no_job_has_a_token_of_pypi() -> None:
    text = (REPOSITORY / ".github/workflows/release.yml").read_text(encoding="utf-8")

    assert "secrets." not in text
    assert "password" not in text
    assert RELEASE["jobs"]["publish"]["permissions"]["id-token"] == "write"
    assert RELEASE["jobs"]["publish"]["environment"] == "pypi"


SHOWS = f"{sys.executable} -c 'import sys; print(*sys.argv[1:], sep=chr(10))'"
"""In place of the Python of releases: prints its arguments."""


@pytest.mark.parametrize("by", ["environment", "command line"])
def test_a_name_of_a_tag_is_no_command(tmp_path: Path, by: str) -> None:
    """`git tag` takes such names. On its command line make itself expands `$(…)`: that is why the
    workflow gives it in the environment."""
    made = tmp_path / "made"
    tag = f"v1';touch${{IFS}}{made};'\";touch${{IFS}}{made};\"`touch${{IFS}}{made}`"
    if by == "environment":
        tag += f"$(shell touch {made})$$(touch${{IFS}}{made})"
    command = ["make", "--silent", "release-check", "RELEASE_READY=", "RELEASE_PY=" + SHOWS]
    command += [f"TAG={tag.replace('$', '$$')}"] if by == "command line" else []
    environment = {**os.environ, "TAG": tag if by == "environment" else ""}

    told = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert told.splitlines() == ["tools/release_check.py", "--tag", tag]
    assert not made.exists()


@pytest.mark.parametrize("path", sorted((REPOSITORY / "tools/pinned").glob("*.txt")))
def test_the_tools_of_a_release_have_versions_and_check_sums(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    wanted = path.with_suffix(".in").read_text(encoding="utf-8").split()

    assert all(
        re.match(r"[a-z0-9.-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}", line) for line in lines
    )
    for each in wanted:
        name, _, version = each.partition("==")
        assert any(line.startswith(f"{name}=={version}") for line in lines)


def test_what_builds_a_release_comes_from_these_files_alone() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    recipes = re.findall(r"^\$\((?:RELEASE|DOCS)_READY\):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    tool = (REPOSITORY / "tools" / "release_check.py").read_text(encoding="utf-8")

    assert len(recipes) == 2
    assert all("$(PINNED) tools/pinned/" in each and " install" not in each for each in recipes)
    assert all(word in makefile for word in ("--require-hashes", "--only-binary :all:"))
    assert makefile.count("-m build --no-isolation") == 1
    assert '"-m", "build", "--no-isolation"' in tool
    assert '"--only-binary", ":all:"' in tool


@pytest.fixture
def rattler_build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What `release_check` uses of rattler-build: names and versions, or a refusal."""
    module = ModuleType("rattler_build")
    module.RattlerBuildError = type("RattlerBuildError", (Exception,), {})  # type: ignore[attr-defined]

    def read(text: str) -> SimpleNamespace:
        recipe = yaml.safe_load(text)
        if "package" not in recipe:
            raise module.RattlerBuildError("missing field 'package'")
        name, version = recipe["package"]["name"], recipe["context"]["version"]
        package = SimpleNamespace(name=name, version=version)
        return SimpleNamespace(
            render=lambda: [SimpleNamespace(recipe=SimpleNamespace(package=package))]
        )

    module.Stage0Recipe = SimpleNamespace(from_yaml=read)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rattler_build", module)
    return module


def test_a_recipe_that_rattler_build_refuses_or_that_makes_something_else_is_no_release(
    rattler_build: ModuleType,
) -> None:
    check_recipe(filled_recipe(RECIPE, "0.2.0", "a" * 64), "0.2.0")
    with pytest.raises(ValueError, match=r"makes \[\('spark-azqueue', '0\.0\.0'\)\]"):
        check_recipe(RECIPE, "0.2.0")
    with pytest.raises(ValueError, match=r"refuses conda/recipe\.yaml: missing field 'package'"):
        check_recipe("context: {}", "0.2.0")
