"""The training of the grounded captioner, stage by stage."""
