"""Content keys: equal contents are the same thing."""

import hashlib


def content_key(*parts: str) -> str:
    """A hash of texts in order; the lengths keep ('ab', 'c') and ('a', 'bc') apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]
