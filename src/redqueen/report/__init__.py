"""What a run was like, for people: the report, the live page, comparisons, exports. Everything is
made from the ledger alone."""
