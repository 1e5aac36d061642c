"""The package's version, in a module of its own so that a build can read it alone."""

__version__ = "0.1.0"
