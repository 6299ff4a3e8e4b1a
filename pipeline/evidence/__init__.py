"""Evidence: the pictures that show what a record says, stored by the SHA-256 of their bytes."""

from pipeline.evidence.store import EvidenceStore, Pictures, evidence_beside, evidence_fault, references

__all__ = ["EvidenceStore", "Pictures", "evidence_beside", "evidence_fault", "references"]
