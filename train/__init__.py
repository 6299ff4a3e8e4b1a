"""Training: footage in, samples and checkpoints out."""
