"""The folder of a tenant: a journal of its sessions and samplers, and a folder for each model."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redqueen.ledger.durable import make_folder, remove_tree
from redqueen.serve.journal import Journal

Entry = Mapping[str, Any]
ENTRY_BYTES = 256
"""Of a session or a sampler in the journal."""


class TenantFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder / "models")
        self.journal = Journal(folder / "sessions")
        self.lock = threading.RLock()
        """Taken before the service's, by whoever changes sessions and writes them down."""
        self.count = len(self.journal.records())
        """Entries of the journal."""

    def log(self, *entries: Entry) -> None:
        self.journal.append([json.dumps(entry).encode() for entry in entries])
        self.count += len(entries)

    def keep(self, entries: Sequence[Entry]) -> None:
        """Go on with these and no others."""
        self.journal.keep(json.dumps(entry).encode() for entry in entries)
        self.count = len(entries)

    def entries(self) -> list[Entry]:
        return [json.loads(record) for record in self.journal.records()]

    def model_folder(self, id_: str) -> Path:
        """Made if it is not there. Ids are the server's own."""
        folder = self.folder / "models" / id_.replace(":", "-")
        make_folder(folder)
        return folder

    def model_folders(self) -> list[Path]:
        """Of models that were made whole, and not removed."""
        for gone in (self.folder / "models").glob(".*"):
            remove_tree(gone)
        folders = sorted((self.folder / "models").iterdir())
        return [folder for folder in folders if (folder / "model.json").is_file()]
