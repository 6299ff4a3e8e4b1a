"""How the daemon is, for whoever asks: systemd, Prometheus, the log."""
