"""What an author may write: the models of a task file, and reading them with line numbers."""
