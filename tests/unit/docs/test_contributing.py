"""What contributors are told and given agrees with the project."""

from __future__ import annotations

import configparser
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from site_pages import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def pinned() -> dict[str, str]:
    """The tools that setup.cfg pins: name -> version."""
    config = configparser.ConfigParser()
    config.read_string(text("setup.cfg"))
    lines = config["options.extras_require"]["test"].split()
    return dict(line.split("==") for line in lines if "==" in line)


def hooks() -> dict[str, dict[str, object]]:
    repos = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    return {hook["id"]: hook for repo in repos for hook in repo["hooks"]}


@pytest.mark.parametrize("name", ["ruff-format", "ruff-check"])
def test_a_commit_is_checked_by_the_ruff_of_setup_cfg(name: str) -> None:
    assert hooks()[name]["additional_dependencies"] == [f"ruff=={pinned()['ruff']}"]


def test_a_commit_is_checked_by_the_mypy_of_setup_cfg() -> None:
    assert "mypy" in pinned()
    assert hooks()["mypy"]["entry"] == ".venv/bin/python -m mypy"  # where setup.cfg puts it


def test_contributing_names_every_package() -> None:
    package = REPOSITORY / "spark_azqueue"
    folders = {path.parent for path in package.rglob("*.py")} - {package}
    told = set(re.findall(r"`(spark_azqueue/[a-z_/]+)/`", text("CONTRIBUTING.md")))

    assert {str(folder.relative_to(REPOSITORY)) for folder in folders} <= told


def test_pytest_can_collect_all_tests_at_once() -> None:
    """It takes two files of one name for one module, unless they are in packages."""
    files = (REPOSITORY / "tests").rglob("test_*.py")
    names = Counter(each.name for each in files if not (each.parent / "__init__.py").exists())

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/design.md"])
def test_the_files_that_a_contributor_is_sent_to_exist(page: str) -> None:
    """Each `….py`: whole, or below the package; a bare name, or one of a folder named before it."""
    package = REPOSITORY / "spark_azqueue"
    known = {
        path.name
        for folder in ("spark_azqueue", "tests", "tools")
        for path in (REPOSITORY / folder).rglob("*.py")
    }
    named = re.findall(r"`([\w/{}.]+\.py)`", text(page))
    assert len(named) > 5
    lost = [
        name
        for name in named
        if not ((REPOSITORY / name).exists() or (package / name).exists())
        and ("/" in name or name not in known)
    ]
    assert lost == []


def test_the_docstrings_name_files_that_exist() -> None:
    package = REPOSITORY / "spark_azqueue"
    known = {path.name for path in package.rglob("*.py")}
    for path in sorted(package.rglob("*.py")):
        named = re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8"))
        lost = [name for name in named if name.rpartition("/")[2] not in known]
        assert lost == [], path


def test_the_targets_that_contributing_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", text("CONTRIBUTING.md"), re.MULTILINE))

    assert named
    assert named <= targets


def test_make_test_all_runs_every_folder_of_tests() -> None:
    recipe = re.search(r"^test-all: .+\n((?:\t.+\n)+)", text("Makefile"), re.MULTILINE)
    assert recipe
    checks = re.search(r"^CHECKS = (.+)$", text("Makefile"), re.MULTILINE)
    assert checks
    lanes = " ".join(re.findall(r"LANES\) (.+)", recipe[1]))
    targets = lanes.replace("$(DELTA)", "test-delta").replace("$(CHECKS)", checks[1]).split()
    commands = subprocess.run(
        ["make", "--dry-run", *targets],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    run = {word for words in re.findall(r"pytest -q (.+)", commands) for word in words.split()}
    tests = REPOSITORY / "tests"
    folders = {path.relative_to(tests).parts[0] for path in tests.rglob("test_*.py")}

    assert {f"tests/{folder}" for folder in folders} <= run


MAY = {
    "release.yml": {
        "publish": {"contents": "read", "id-token": "write", "attestations": "write"},
        "release": {"contents": "write"},
        "site": {"contents": "write"},
    },
    "bench.yml": {"keep": {"contents": "write"}},
}
"""The jobs that may do more than read, and what."""
PUBLISHES = {("release.yml", "publish"): r"pypa/gh-action-pypi-publish"}
"""Jobs with an action that is not GitHub's own."""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_ends_in_time(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))

    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= (240 if path.name == "nightly.yml" else 90)
        assert job.get("permissions") == MAY.get(path.name, {}).get(name)
        known = rf"(actions/[a-z-]+|{PUBLISHES.get((path.name, name), 'actions/x')})@[0-9a-f]{{40}}"
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(known, step["uses"])
    uses = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert all(re.fullmatch(r"\S+ # v\d+\.\d+\.\d+", each) for each in uses)


INSTALLS = re.compile(r"\b(make|pip|npm|npx|uv|pipx|curl|wget|docker|apt-get)\b")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_that_may_write_runs_nothing_that_it_fetched(path: Path) -> None:
    for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
        may_write = "write" in (job.get("permissions") or {}).values()
        for step in job["steps"]:
            assert not (may_write and INSTALLS.search(step.get("run", ""))), name
            is_checkout = step.get("uses", "").startswith("actions/checkout@")
            if is_checkout and not may_write:
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_shell_of_a_workflow_reads_a_name_from_outside_as_a_command(path: Path) -> None:
    """As `${{ github.ref_name }}` would be: it goes into the text before a shell reads it."""
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for run in (step["run"] for step in job["steps"] if "run" in step):
            assert "${{" not in run
            unquoted = re.sub(r'"[^"]*"', "", run)
            assert not re.search(r"\$\{?(TAG|SPARK)", unquoted)
            assert not re.search(r"make .*=", run), "make expands what is on its command line"


def test_the_workflow_runs_what_the_build_server_runs_on_every_line_of_spark() -> None:
    jobs = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]
    lines = re.search(r"^MATRIX = (.+)$", text("Makefile"), re.MULTILINE)

    assert text(".ci/run").endswith("\nexec make test-ci\n")
    assert [step["run"] for step in jobs["tests"]["steps"] if "run" in step] == [".ci/run"]
    (night,) = yaml.safe_load(text(".github/workflows/nightly.yml"))["jobs"].values()
    assert night["steps"][-1]["run"] == "make test-all"
    assert lines
    assert jobs["matrix"]["strategy"]["matrix"]["spark"] == lines[1].split()


@pytest.mark.parametrize(
    "path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.name
)
def test_a_form_is_one(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields = [field for field in form["body"] if field["type"] != "markdown"]

    assert {"name", "description", "body"} <= form.keys()
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
