"""Forwarding: records go from the Redis streams to brokers, web hooks, commands and people's phones."""
