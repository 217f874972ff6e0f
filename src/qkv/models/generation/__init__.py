"""Continuing a text: strategies, drafts, caches that stay."""
