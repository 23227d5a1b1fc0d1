"""How a conversation with an agent goes on after its first reply: scripted prompts, or a model that plays the user."""
