"""What setup.cfg cannot say: the README as the package index shows it, and where things are."""

import configparser
import runpy
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "tools"))

from absolute_links import with_absolute_links  # noqa: E402

config = configparser.ConfigParser(interpolation=None)
config.read(HERE / "setup.cfg", encoding="utf-8")
url = config["metadata"]["url"]
readme = (HERE / "README.md").read_text(encoding="utf-8")
tag = f"v{runpy.run_path(str(HERE / 'spark_azqueue' / 'version.py'))['__version__']}"

setup(
    long_description=with_absolute_links(readme, url, tag),
    project_urls={
        "Source": url,
        "Documentation": f"{url}/blob/{tag}/docs/quickstart.md",
        "Changelog": f"{url}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    },
)
