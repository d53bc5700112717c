"""`redqueen bench`: how fast parts of the system are, as ratios within one run, and how well it
selects."""

from redqueen.cli.lazy import new_app

COMMANDS = {
    "blocks": (
        "redqueen.cli.bench.block_cost:blocks",
        "Play the worlds of a study in blocks of their own, beside one block of everything.",
    ),
    "engine": (
        "redqueen.cli.bench.engine:engine",
        "Measure what a population costs beside one member, the bare base, and PEFT.",
    ),
    "evolve": (
        "redqueen.cli.bench.evolve:evolve",
        "Time one replacement, operator by operator.",
    ),
    "sandbox": (
        "redqueen.cli.bench.sandbox:sandbox",
        "Count programs per second through the sandbox.",
    ),
    "scale": (
        "redqueen.cli.bench.scale:scale",
        "Measure and predict a step on 1, 2 and 4 workers, and the curve to 64 GPUs.",
    ),
    "serve": (
        "redqueen.cli.bench.serve:serve",
        "Time many tenants of a server beside one who does all of their work.",
    ),
    "selection": (
        "redqueen.cli.bench.selection:selection",
        "Simulate whether selection finds the weaker student, and intervals cover what they claim.",
    ),
}


app = new_app(COMMANDS, no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure speed, as ratios within one run, and simulate selection."""
