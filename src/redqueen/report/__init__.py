"""What a run looks like from outside: the report page, comparisons, exports and trackers."""
