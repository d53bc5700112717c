"""Writes later measurements into the ledger of a run, under names that tell them from what the run
measured itself. They are no part of the run: `redqueen digest` leaves them out."""

from redqueen.errors import ConfigError, StorageError
from redqueen.evaluate.replies import EvalConfig
from redqueen.evaluate.result import EvalResult
from redqueen.ledger.lock import RunLock, is_held
from redqueen.ledger.store import MEASURED_LATER, Ledger


def ledger_suite(config: EvalConfig) -> str:
    """A name with all that the replies depend on: measurements with other settings do not mix."""
    forced = ", reasoning forced" if config.reasoning == "forced" else ""
    return (
        f"{MEASURED_LATER}{config.suite} ({config.prompt_version}, {config.style}, "
        f"{config.sampling}, {config.max_tokens} tokens, {config.dtype}{forced})"
    )


def store_result(result: EvalResult) -> str:
    """Write the replies to the run's ledger. Returns why not, where that is impossible: a run that
    is being played has one writer already."""
    assert result.run is not None
    if is_held(result.run):
        return (
            "another process is at it, and a run has one writer. When that ends, the same command "
            f"adds step {result.step}, if that is still the last"
        )
    try:
        with RunLock(result.run), Ledger.open(result.run) as ledger:
            if ledger.last_step() < result.step:
                return f"the run has gone back behind step {result.step} in the meantime"
            ledger.add("evals", result.to_rows(ledger_suite(result.config)))
    except (ConfigError, StorageError) as error:
        return str(error)
    return ""
