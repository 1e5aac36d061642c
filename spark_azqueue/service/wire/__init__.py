"""Sends calls to the service over libcurl, many at the same time. Every request of the package is
sent here.
"""
