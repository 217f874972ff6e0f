"""Tokenizers, whatever files describe them, and the tokens that mean something."""
