"""The bases that ship with the package, by name. Costs no torch."""

from pathlib import Path

_PAWN = Path(__file__).parent.parent / "pawn"

BUNDLED = {"pawn": _PAWN / "weights", "pawn-games": _PAWN / "weights-games"}
"""Folders in the Hugging Face format, each with a card. Both are Pawns: the second has read
critiques, repairs and logic puzzles, too."""
