"""Code reasoning: deduction, abduction and induction over Python programs."""
