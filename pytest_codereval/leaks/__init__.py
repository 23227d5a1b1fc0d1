"""Whether the agent saw grading material: what would show it, where it must not be, and where it turned up."""
