"""Verdicts in, status out: gate, scores, the outcome table."""
