"""Judges: models and agents that score a trial by what they are shown of it, and that must submit a verdict."""
