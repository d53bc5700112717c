"""Exports on the Hugging Face hub, or on whatever HF_ENDPOINT names: pushed there, and adapters
taken from there by name."""

import os
import re
from pathlib import Path
from typing import Literal

from redqueen.errors import ConfigError

HubKind = Literal["model", "dataset"]
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def check_name(repo: str) -> str:
    if not _NAME.fullmatch(repo):
        raise ConfigError(f"--push takes a name on the hub, owner/name; got '{repo}'")
    return repo


def push_folder(folder: Path, repo: str, kind: HubKind, *, private: bool = True) -> str:
    """Upload an export, its card included; makes the repository if there is none. Returns its
    address."""
    from huggingface_hub import HfApi

    check_name(repo)
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        made = api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repo,
            repo_type=kind,
            folder_path=folder,
            commit_message="Upload an export of Red Queen",
        )
    except Exception as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigError(
            f"{folder} could not be pushed to {repo}: {why}\n"
            "Log in with `hf auth login` or set HF_TOKEN to a token that may write there; "
            "what was exported is intact, and the same command can be given again."
        ) from error
    return str(made)
