"""Two endpoints against an adversary who owns the network: the world, its invariants, the soak."""
