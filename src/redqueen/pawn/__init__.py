"""Pawn: the base model that ships with the package, and everything it is made of: programs,
documents, tokenizer, pre-training."""
