"""The project's own tests drive pytest from outside."""

pytest_plugins = ["pytester"]
