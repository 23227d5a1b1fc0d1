"""Plugins and skills as the agent gets them: a copy of their declared parts, outside the workspace."""
