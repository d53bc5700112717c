"""Files for others: problems as data sets, members with model cards."""
