"""The daemon: who runs the pipeline, for how long, with which settings."""

__version__ = "0.1.0"
