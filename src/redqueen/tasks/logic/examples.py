"""A few small puzzles for archives to begin with: one for each sort of constraint."""

from typing import Any

EXAMPLES: tuple[dict[str, Any], ...] = (
    {
        "variables": {"x": "1..6", "y": "1..6", "z": "1..6"},
        "constraints": [
            ["=", ["+", "x", "y"], "z"],
            ["=", ["*", "x", "y"], 6],
            ["<", "y", "x"],
            ["!=", "z", 7],
        ],
    },
    {
        "variables": {
            "ann": ["tea", "milk", "cocoa"],
            "bob": ["tea", "milk", "cocoa"],
            "cid": ["tea", "milk", "cocoa"],
        },
        "constraints": [
            ["all_different", "ann", "bob", "cid"],
            ["=>", ["=", "ann", "tea"], ["=", "bob", "cocoa"]],
            ["or", ["=", "ann", "tea"], ["=", "cid", "tea"]],
            ["!=", "cid", "milk"],
            ["=>", ["=", "cid", "tea"], ["!=", "ann", "cocoa"]],
        ],
    },
    {
        "variables": {"a": "0..1", "b": "0..1", "c": "0..1", "d": "0..1"},
        "constraints": [
            ["=", ["count", ["=", "a", 1], ["=", "b", 1], ["=", "c", 1], ["=", "d", 1]], 2],
            ["=>", ["=", "a", 1], ["=", "b", 1]],
            ["=>", ["=", "b", 1], ["=", "c", 0]],
            ["!=", "c", "d"],
        ],
    },
    {
        "variables": {"first": "1..9", "second": "1..9", "third": "1..9"},
        "constraints": [
            ["<", "first", "second"],
            ["<", "second", "third"],
            ["=", ["+", "first", "second", "third"], 15],
            ["=", ["%", "first", 3], 0],
            ["=", ["-", "third", "second"], 2],
        ],
    },
    {
        "variables": {"p": "1..5", "q": "1..5", "r": "1..5", "s": "1..5", "t": "1..5"},
        "constraints": [
            ["all_different", "p", "q", "r", "s", "t"],
            ["=", ["abs", ["-", "p", "q"]], 1],
            ["=", ["abs", ["-", "q", "r"]], 2],
            ["=", ["abs", ["-", "r", "s"]], 3],
            ["<", "t", "p"],
            ["<", "p", "q"],
        ],
    },
)
