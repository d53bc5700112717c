"""Language models: loading any base, and what a base offers to engines."""

import redqueen.threads  # noqa: F401
