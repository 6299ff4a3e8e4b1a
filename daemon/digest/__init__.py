"""`narrated digest`: what happened in a span, in a dozen sentences that name their records."""
