"""Files for other tools: problems as data sets, members with model cards."""
