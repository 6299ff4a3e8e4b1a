"""Evidence: the pictures that show what a record tells, stored by the SHA-256 of their bytes."""

from pipeline.evidence.store import EvidenceStore, Swept, evidence_fault, references

__all__ = ["EvidenceStore", "Swept", "evidence_fault", "references"]
