"""Texts as a model would write them, for both prompt packs."""

from redqueen.tasks.prompts.compact import write_blocks


def chat(*blocks: tuple[str, str], thought: str = "Let me see.") -> str:
    fenced = "\n".join(
        f"```{'python' if label == 'program' else label}\n{text}\n```" for label, text in blocks
    )
    return f"<think>\n{thought}\n</think>\n<answer>\n{fenced}\n</answer>"


def compact(*blocks: tuple[str, str], thought: str = "x = 1") -> str:
    return write_blocks([("think", thought), *blocks])


WRITERS = {"chat": chat, "compact": compact}
