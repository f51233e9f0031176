"""Gemini: its projects and its chats, in all the shapes they have had."""
