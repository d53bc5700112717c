"""What a run leaves behind: the ledger of its records, checkpoints to resume from, and a lock."""
