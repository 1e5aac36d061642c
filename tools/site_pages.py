"""Collect the pages of the documentation site: those in the nav, and the files that they link to.

    python tools/site_pages.py build/pages
    python tools/site_pages.py --redirects site   # after the build: old addresses

Every page keeps its path in the repository, so that its links work there and on the site. A link to
what the site would not have is an error.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent


def nav_pages(nav: list[Any]) -> Iterator[str]:
    """The paths in a nav, in its order."""
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from nav_pages(target)


def links(text: str) -> list[str]:
    """Where the links and pictures of a page lead, except those to other hosts."""
    without_code = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", without_code)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def collect(repository: Path, pages: list[str]) -> tuple[set[Path], list[str]]:
    """The files that a site with these pages needs, and what is wrong with their links."""
    root = repository.resolve()
    files = {root / page for page in pages}
    wrong = [
        f"the nav names {page}, which does not exist"
        for page in pages
        if not (root / page).is_file()
    ]
    for page in [root / page for page in pages if (root / page).is_file()]:
        for link in links(page.read_text(encoding="utf-8")):
            path = unquote(link).partition("#")[0]
            target = (page.parent / path).resolve() if path else page
            at = f"{page.relative_to(root)} links to {link}"
            if not target.is_relative_to(root) or not target.exists():
                wrong.append(f"{at}, which does not exist")
            elif target.is_dir():
                wrong.append(f"{at}, a folder: link to a file in it")
            elif target.suffix == ".md" and target not in files:
                wrong.append(f"{at}, which is not in the nav of mkdocs.yml")
            else:
                files.add(target)
    return files, wrong


def redirects(config: Mapping[str, Any], site: Path) -> None:
    """Write a page at each old address of `extra.redirects` that leads to the new one."""
    for old, new in config["extra"]["redirects"].items():
        page, _, anchor = new.partition("#")
        at = site / old.removesuffix(".md") / "index.html"
        levels = "../" * (len(Path(old).parts))
        target = f"{levels}{page.removesuffix('.md')}/" + (f"#{anchor}" if anchor else "")
        at.parent.mkdir(parents=True)
        at.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">'
            f'<a href="{target}">This page has moved.</a>\n',
            encoding="utf-8",
        )


def configuration() -> dict[str, Any]:
    """What mkdocs.yml says."""
    found: dict[str, Any] = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    return found


def main(folder: Path) -> int:
    """Fill the folder. Returns the exit status."""
    config = configuration()
    files, wrong = collect(REPOSITORY, list(nav_pages(config["nav"])))
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    for file in sorted(files):
        copy = folder / file.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--redirects":
        redirects(configuration(), Path(sys.argv[2]))
    else:
        sys.exit(main(Path(sys.argv[1])))
