"""What a run leaves behind: the ledger of its records, checkpoints to go on from, and the lock that
keeps writers apart."""
