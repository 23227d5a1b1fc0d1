"""A trial judged, or told of, from its record: nothing is run again."""
