"""How a trial is judged: one module per criterion type, named like the type."""
