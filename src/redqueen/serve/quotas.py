"""What one tenant may hold at a time, so that it cannot crowd out the others."""

from dataclasses import dataclass

from redqueen.serve.commands import Refused


@dataclass(frozen=True, slots=True)
class Quotas:
    models: int = 16
    """Models of sessions that are alive; others are parked on disk, and cost nothing else."""
    tokens_in_flight: int = 2_000_000
    """Of requests that wait or are computed: prompts, samples, and what may be generated."""
    requests_in_flight: int = 4096
    tokens_to_step: int = 8_000_000
    """Of one model, whose gradients wait for a step: they are kept to be computed again."""
    models_ever: int = 4096
    """Models that there are, those of sessions that ended included: each is a folder, and something
    in memory."""
    sessions: int = 256
    sampling_sessions: int = 1024
    """Samplers of saved weights and of the base; the one that was not used for longest goes first.
    """
    disk_mb: float = 20_000.0
    """Of a tenant's folder: journals, checkpoints, saved weights."""
    body_mb: float = 64.0
    """Largest request."""
    samplers: int = 8
    """Unnamed samplers that live, of one model; the oldest goes first."""
    unsettled_mb: float = 64.0
    """Commands of a model that a checkpoint cannot take up, as gradients wait for a step."""

    def check_load(self, tokens: int, in_flight: int, requests: int) -> None:
        """Whether a request of so many tokens may come in beside those that are there."""
        if tokens > self.tokens_in_flight:
            raise Refused(
                f"this request has {tokens:,} tokens, what it may generate included; a tenant may "
                f"have {self.tokens_in_flight:,} in flight. Send less at a time.",
                413,
            )
        if in_flight + tokens > self.tokens_in_flight or requests >= self.requests_in_flight:
            raise Refused(
                f"you have {in_flight:,} tokens in {requests} requests in flight already: "
                "wait for some of them",
                429,
            )

    def check_models(self, count: int, ever: int) -> None:
        if ever >= self.models_ever:
            raise Refused(
                f"your folder holds {ever:,} models, most of them of sessions that ended. "
                "Whoever runs the server can remove old ones.",
                403,
            )
        if count >= self.models:
            raise Refused(
                f"you have {count} models in living sessions, which is all that a tenant may "
                "have. Close clients that you do not need.",
                403,
            )

    def check_sessions(self, count: int) -> None:
        if count >= self.sessions:
            raise Refused(
                f"you have opened {count} sessions within a few minutes, which is all that a "
                "tenant may have. Share a client between your tasks.",
                429,
            )

    def refuse_sampler(self, count: int) -> None:
        raise Refused(
            f"you have opened or used {count} sampling clients within a few minutes, which is all "
            "that a tenant may have. Share one between your tasks.",
            429,
        )

    def check_step(self, waiting: int, more: int) -> None:
        if waiting and waiting + more > self.tokens_to_step:
            raise Refused(
                f"{waiting:,} tokens wait for an optimizer step of this model, and this has "
                f"{more:,} more; there may be {self.tokens_to_step:,}. Step more often."
            )

    def check_unsettled(self, bytes_: int) -> None:
        if bytes_ > self.unsettled_mb * 1e6:
            raise Refused(
                f"{bytes_ / 1e6:.0f} MB of this model's requests are kept because gradients wait "
                "for an optimizer step: step first."
            )

    def check_disk(self, used_bytes: int, more: int) -> None:
        if used_bytes + more > self.disk_mb * 1e6:
            raise Refused(
                f"your folder holds {used_bytes / 1e6:.0f} MB of {self.disk_mb:.0f}, and this "
                f"needs {more / 1e6:.1f} more. Delete saved checkpoints.",
                403,
            )
