"""The state of the daemon: for systemd, Prometheus, the log."""
