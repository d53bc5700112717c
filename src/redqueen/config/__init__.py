"""Settings: sections, recipes, studies and the open tables."""
