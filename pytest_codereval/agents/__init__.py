"""Who does the work: one module per agent."""
