"""Congestion control: a small interface (`base`), a registry, NSCC and a fixed window."""
