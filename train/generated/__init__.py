"""The generated benchmark: drawn surveillance pairs with exact captions, clusters and alignments.

It needs no footage and no download, so that captioners can be compared anywhere; it is no substitute for real
pictures, and figures on it do not compare with those of the papers.
"""

from train.generated.staging import StageOptions
from train.generated.writing import GenerateOptions, GenerateReport, generate, read_clusters

__all__ = ["GenerateOptions", "GenerateReport", "StageOptions", "generate", "read_clusters"]
