"""What the agent ran: commands of its transcript, recorded calls, and which of them are as a criterion asks."""
