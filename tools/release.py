"""Release the version in spark_azqueue/version.py: check it, build it, tag it. Pushes nothing.

    python tools/release.py [--dry-run]      or: make release [DRY_RUN=1]

A dry run does everything except the tag.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

NEXT = """
Tagged {tag}; nothing is pushed. Next:

    git push origin main {tag}

The workflow Release then publishes {files}, with the section of CHANGELOG.md as notes. Begin a new
section [Unreleased]. To take the tag back before the push: git tag -d {tag}
"""


def tag_of(version: str) -> str:
    """The name of this version's tag."""
    return f"v{version}"


def section(changelog: str, version: str) -> tuple[str, str] | None:
    """Date and text of a version's section in the changelog; None if there is no such section.

    The date is empty if the heading has none: `## [0.2.0] - 2026-12-31`.
    """
    heading = rf"^## \[{re.escape(version)}\](?: - (\d{{4}}-\d\d-\d\d))?[ ]*\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.DOTALL | re.MULTILINE)
    return (found[1] or "", found[2].strip()) if found else None


def problems(version: str, changelog: str, tags: list[str], changes: str) -> list[str]:
    """Why this version cannot be released yet. `changes`: what `git status --porcelain` says."""
    found = []
    if changes:
        found.append(f"the tree is not clean: commit or stash this first\n{changes.rstrip()}")
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        found.append(f"{version!r} in spark_azqueue/version.py is not like 1.2.3 or 1.2.3rc1")
    if tag_of(version) in tags:
        found.append(f"the tag {tag_of(version)} exists: raise spark_azqueue/version.py")
    notes = section(changelog, version)
    if notes is None:
        found.append(
            f"CHANGELOG.md has no section [{version}]: rename [Unreleased] to it and add the date"
        )
    elif not all(notes):
        found.append(f"the section [{version}] of CHANGELOG.md needs a date and some text")
    return found


def git(*arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def run(*command: str) -> None:
    """Run a step and show it. Raises CalledProcessError if it fails."""
    print("+", *command, flush=True)
    subprocess.run(command, cwd=REPOSITORY, check=True)


def version_now() -> str:
    """The version in spark_azqueue/version.py."""
    text = (REPOSITORY / "spark_azqueue" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return found[1] if found else ""


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check, build and tag this version.")
    parser.add_argument("--dry-run", action="store_true", help="everything except the tag")
    dry_run = parser.parse_args().dry_run

    version = version_now()
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    found = problems(version, changelog, git("tag").split(), git("status", "--porcelain"))
    if found:
        print(f"{version} cannot be released:", *found, sep="\n- ", file=sys.stderr)
        return 1
    try:
        run("make", "check")
        run("make", "build")
        files = sorted(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("dist/*"))
        run(sys.executable, "-m", "twine", "check", "--strict", *files)
        if dry_run:
            print(f"All is well. Without --dry-run this would tag {tag_of(version)}.")
            return 0
        run("git", "tag", "--annotate", tag_of(version), "--message", f"spark-azqueue {version}")
    except subprocess.CalledProcessError as error:
        print(f"{version} is not released: a step failed, see above", file=sys.stderr)
        return error.returncode
    print(NEXT.format(tag=tag_of(version), files=" and ".join(files)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
