"""The Chat Completions API of OpenAI and of all who speak it."""
