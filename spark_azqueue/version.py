"""The package's version, in its own module so that a build can read it alone."""

__version__ = "0.1.0"
