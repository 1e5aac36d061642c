"""Settings of Java for tests."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds: on two cores most of what they do is to compile themselves."""
