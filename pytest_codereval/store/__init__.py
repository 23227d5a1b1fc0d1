"""The run directory: versioned trial records, written once and whole."""
