"""How fast, and in how much memory: qkv, naive NumPy and whichever peers are installed, side by side in one run."""
