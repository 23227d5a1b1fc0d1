"""Whether grading material that an agent saw is found, and only that."""
