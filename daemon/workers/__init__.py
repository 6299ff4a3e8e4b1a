"""Work shared out: pictures go to workers on any machine, and what they see comes back (ADR 0019)."""
