"""Evidence: the pictures that show what a record tells, stored by the SHA-256 of their bytes."""

from pipeline.evidence.named import Named, named_in, references
from pipeline.evidence.store import EvidenceStore, evidence_beside, evidence_fault

__all__ = ["EvidenceStore", "Named", "evidence_beside", "evidence_fault", "named_in", "references"]
