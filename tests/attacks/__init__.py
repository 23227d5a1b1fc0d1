"""Scripted attacks of an agent on its harness, run for real against each driver."""
