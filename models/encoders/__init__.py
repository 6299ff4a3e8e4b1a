"""Visual encoders, frozen, with public weights."""
