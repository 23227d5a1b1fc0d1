"""The way from an agent's program to its model: it adds the key outside the sandbox and sees what each call used."""
