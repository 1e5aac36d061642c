"""Sends calls to the service over libcurl, many concurrently. The package sends no request in
another way.
"""
