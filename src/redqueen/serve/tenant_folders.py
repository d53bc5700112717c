"""The folder of a tenant: a journal of its sessions and samplers, and a folder for each model."""

import json
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from redqueen.ledger.durable import make_folder
from redqueen.serve.journal import Journal

_FEW = 1000


class TenantFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder / "models")
        self.journal = Journal(folder / "sessions")

    def log(self, entry: Mapping[str, Any]) -> None:
        self.journal.append([json.dumps(entry).encode()])

    def keep(self, *known: Container[str]) -> None:
        """Forget sessions and samplers that are forgotten, if these are the most."""
        entries = self.entries()
        kept = [one for one in entries if any(id_ in own for own in known for id_ in one.values())]
        if len(entries) > 2 * len(kept) + _FEW:
            self.journal.keep(json.dumps(one).encode() for one in kept)

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(record) for record in self.journal.records()]

    def model_folder(self, id_: str) -> Path:
        """Made if it is not there. Ids are the server's own."""
        folder = self.folder / "models" / id_.replace(":", "-")
        make_folder(folder)
        return folder

    def model_folders(self) -> list[Path]:
        """Of models that were made whole."""
        folders = sorted((self.folder / "models").iterdir())
        return [folder for folder in folders if (folder / "model.json").is_file()]
