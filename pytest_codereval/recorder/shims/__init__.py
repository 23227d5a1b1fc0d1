"""What stands in the place of a tool where the agent works, and the proof that it is reached."""
