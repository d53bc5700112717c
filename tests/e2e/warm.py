"""Imported by the process that others are forked from: what they would do first each, it has done."""

import redqueen.commands.run  # noqa: F401
from redqueen.engine import torch_engine  # noqa: F401
from redqueen.model.base import load_base

load_base("pawn", device="cpu")
