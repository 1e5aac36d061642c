"""The package's version, alone in a module so that a build can read it without importing more."""

__version__ = "0.1.0"
