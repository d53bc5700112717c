"""Imported by the process that others are forked from: what they would do first each, it has done."""

import redqueen.cli.run
import redqueen.engine.torch.engine  # noqa: F401
from redqueen.models.base import load_base

load_base("pawn", device="cpu")
