"""Footage to learn from: its cameras, its frames, and what teachers see in them."""
