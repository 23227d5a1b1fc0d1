"""What counts as a use of a skill: names of skills, paths into their folders, and shell commands that open these."""
