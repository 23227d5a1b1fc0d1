"""What a trial is made of while it runs: its attempts, its conversation, its books, and the session around it."""
