"""The evolve stage: the weakest members of each role are replaced by mutations and crossovers of
the strongest, in weight space."""
