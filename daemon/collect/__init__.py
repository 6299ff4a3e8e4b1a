"""Collecting: the journals of many daemons, rebuilt on one machine from their streams."""
