"""A pytest plugin in which a task for an AI coding agent is a test."""
