"""What an agent did: messages, tool calls, usage."""
