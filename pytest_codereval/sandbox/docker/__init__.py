"""The `docker` driver: each phase of a trial is a container of its own."""
