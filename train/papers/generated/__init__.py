"""The generated benchmark: drawn surveillance pairs with exact captions, clusters and alignments.

It needs no footage and no download, so that captioners can be compared anywhere; it is no substitute for real
pictures, and figures on it do not compare with those of the papers.
"""
