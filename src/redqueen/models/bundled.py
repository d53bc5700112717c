"""The bases that ship with the package, by name, and where bases are. Costs no torch."""

from pathlib import Path

_PAWN = Path(__file__).parent.parent / "pawn"

BUNDLED = {"pawn": _PAWN / "weights", "pawn-games": _PAWN / "weights-games"}
"""Folders in the Hugging Face format, each with a card. Both are Pawns: the second has read
critiques, repairs and logic puzzles, too."""


def place_of(base: str) -> str:
    """Where other tools find a base: the folder of a bundled one, which has no name on the hub, the
    absolute path of what is on this machine, else its name."""
    if base in BUNDLED:
        return str(BUNDLED[base].resolve())
    there = Path(base).expanduser()
    is_model = there.is_file() or (there / "config.json").is_file()
    return str(there.resolve()) if is_model else base
