"""Red Queen: teachers and students as LoRA adapters on one frozen model, in an arms race of
verifiable problems."""

__version__ = "0.1.0"
