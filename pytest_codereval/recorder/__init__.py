"""Which command-line tools were called: shims, their answers, the drain, argv matching."""
