"""Evolution: the weakest members of each role are replaced by mutations and crossovers of the strongest, in weight space.

`select` says who dies and who breeds, `mutate` and `cross` hold the operators, `step` plans replacements and makes children.
Settings and plans need no torch; only making a child does.
"""

import redqueen.threads  # noqa: F401
