"""Make everything that a release publishes, check it, and publish nothing.

    python tools/release_check.py [--tag v0.2.0]      or: make release-check [TAG=v0.2.0]

Into build/release: the wheel and the source distribution (`dist/`), the notes of the release from
the changelog (`notes.md`), a software bill of materials of the wheel and all that it requires
(`sbom.cdx.json`, CycloneDX), the recipe for conda (`conda/recipe.yaml`), check sums, and the site
beside those of other versions (`pages/`). With a tag, version and changelog must be ready for it.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import site_versions
from absolute_links import relative_links, with_absolute_links
from release import REPOSITORY, run, section, tag_of, version_now

TO = REPOSITORY / "build" / "release"
SBOM = TO / "sbom.cdx.json"


def is_unreleased(readme: str) -> bool:
    """True until the first release changes README.md, which the package index then shows."""
    return "Not on PyPI yet" in " ".join(readme.split())


def problems_of_tag(tag: str, version: str, changelog: str, readme: str) -> list[str]:
    """Why this tag cannot be released."""
    found = []
    if tag != tag_of(version):
        found.append(f"the tag is {tag}, and spark_azqueue/version.py says {version}")
    if not all(section(changelog, version) or ("",)):
        found.append(f"CHANGELOG.md has no section [{version}] with a date and some text")
    if is_unreleased(readme):
        found.append("README.md says 'Not on PyPI yet': put the line that installs a release there")
    return found


def notes(changelog: str, version: str) -> str:
    """The text of a release: its section of the changelog, else what is unreleased.

    Links to pages lead to those of the version. Raises ValueError if there is nothing to tell.
    """
    found = section(changelog, version) or section(changelog, "Unreleased")
    if not found or not found[1]:
        raise ValueError(f"CHANGELOG.md says nothing of {version}, and nothing under [Unreleased]")
    return found[1] + "\n"


def filled_recipe(recipe: str, version: str, sha256: str) -> str:
    """The recipe for conda with this version. Raises ValueError if it has no place for it."""
    text, versions = re.subn(r'(?m)^(  version: )"0\.0\.0"$', rf'\g<1>"{version}"', recipe)
    text, sums = re.subn(r'(?m)^(  sha256: )"0{64}"$', rf'\g<1>"{sha256}"', text)
    if (versions, sums) != (1, 1):
        raise ValueError("conda/recipe.yaml needs one version 0.0.0 and one sha256 of zeros")
    return text


def check_recipe(recipe: str, version: str) -> None:
    """Read the recipe as rattler-build does. Raises ValueError if it would refuse it."""
    import rattler_build  # type: ignore[import-not-found]

    try:
        made = [each.recipe for each in rattler_build.Stage0Recipe.from_yaml(recipe).render()]
    except rattler_build.RattlerBuildError as error:
        raise ValueError(f"rattler-build refuses conda/recipe.yaml: {error}") from error
    told = [(each.package.name, each.package.version) for each in made]
    if told != [("spark-azqueue", version)]:
        raise ValueError(f"conda/recipe.yaml makes {told}, and not spark-azqueue {version} alone")


def names_a_path(sbom: str) -> bool:
    """True if a bill of materials tells a path of the machine that made it."""
    return "file://" in sbom or str(REPOSITORY) in sbom


def sha256_of(path: Path) -> str:
    """The check sum of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def description_of(wheel: Path) -> str:
    """What the package index shows of a wheel. Raises ValueError if a link in it leads nowhere."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(file.read(name))
    payload = metadata.get_payload(decode=True)
    text = payload.decode("utf-8") if isinstance(payload, bytes) else ""
    if not text.strip():
        raise ValueError(f"{wheel.name} has no description")
    if wrong := relative_links(text):
        raise ValueError(f"the description in {wheel.name} has links without a host: {wrong}")
    return text


def make_sbom(wheel: Path) -> None:
    """Install the wheel, and list what came with it. Raises CalledProcessError, ValueError."""
    with_wheel = TO / "with-wheel"
    venv.create(with_wheel, clear=True, with_pip=False)
    python = str(with_wheel / "bin" / "python")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "--quiet",
        "--disable-pip-version-check",
    )
    # By its path: the index may have another package under this name and version. Wheels alone: to
    # build what is required would run code of others beside the files of the release.
    run(*pip, "install", "--no-compile", *("--only-binary", ":all:"), str(wheel))
    for noted in with_wheel.rglob("spark_azqueue-*.dist-info/direct_url.json"):
        noted.unlink()  # the path, which the bill would tell
    run(
        *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
        *("--validate", "--output-file", str(SBOM), python),
    )
    shutil.rmtree(with_wheel)
    told = SBOM.read_text(encoding="utf-8")
    listed = {each["name"] for each in json.loads(told)["components"]}
    if "spark-azqueue" not in listed or "azure-identity" not in listed:
        raise ValueError(f"the bill of materials lists only {sorted(listed)}")
    if names_a_path(told):
        raise ValueError("the bill of materials names a path of this machine")


def make(version: str, changelog: str, url: str) -> None:
    """Make and check it all. Raises CalledProcessError and ValueError."""
    shutil.rmtree(TO, ignore_errors=True)
    dist = TO / "dist"
    dist.mkdir(parents=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist))
    files = sorted(dist.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files))
    (wheel,) = dist.glob("*.whl")
    description_of(wheel)
    text = with_absolute_links(notes(changelog, version), url, tag_of(version))
    (TO / "notes.md").write_text(text, encoding="utf-8")
    make_sbom(wheel)
    (sdist,) = dist.glob("*.tar.gz")
    recipe = (REPOSITORY / "deploy" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    (TO / "conda").mkdir()
    filled = filled_recipe(recipe, version, sha256_of(sdist))
    check_recipe(filled, version)
    (TO / "conda" / "recipe.yaml").write_text(filled, encoding="utf-8")
    run("make", "docs-site")
    site_versions.add(REPOSITORY / "site", TO / "pages", version)
    sums = "".join(f"{sha256_of(file)}  {file.name}\n" for file in [*files, SBOM])
    (TO / "SHA256SUMS").write_text(sums, encoding="utf-8")


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Make all that a release publishes; publish nothing."
    )
    parser.add_argument(
        "--tag", default="", help="refuse if version and changelog are not ready for this tag"
    )
    tag = parser.parse_args().tag
    version = version_now()
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = problems_of_tag(tag, version, changelog, readme) if tag else []
    if found:
        print(f"{tag} cannot be released:", *found, sep="\n- ", file=sys.stderr)
        return 1
    config = (REPOSITORY / "setup.cfg").read_text(encoding="utf-8")
    url = re.search(r"(?m)^url = (\S+)$", config)
    try:
        make(version, changelog, url[1] if url else "")
    except subprocess.CalledProcessError as error:
        print(f"{version} is not ready: a step failed, see above", file=sys.stderr)
        return error.returncode
    except ValueError as error:
        print(f"{version} is not ready: {error}", file=sys.stderr)
        return 1
    for path in sorted(each for each in TO.rglob("*") if each.is_file()):
        if path.relative_to(TO).parts[0] != "pages":
            print(f"{path.stat().st_size:>10,}  {path.relative_to(REPOSITORY)}")
    print(f"Nothing is published. All that {tag_of(version)} would publish is in build/release.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
