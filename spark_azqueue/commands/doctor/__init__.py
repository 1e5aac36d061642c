"""`python -m spark_azqueue`: checks the installation and the queues."""
