"""Calls of a model that the harness makes itself: one streamed reply or a typed fault, never anything between."""
