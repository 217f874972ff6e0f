"""Families of models: how their configurations and tensors become settings and weights by our names."""
