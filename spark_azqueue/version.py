"""Version of the package, in a module of its own, so that a build can read it without importing the
package."""

__version__ = "0.1.0"
