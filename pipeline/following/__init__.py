"""Following: what the objects of a camera did in a pair, told once, from their tracks through its frames."""

from pipeline.following.follower import Follower, See

__all__ = ["Follower", "See"]
