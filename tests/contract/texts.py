"""Texts as a model would write them, in both prompt formats."""

from redqueen.tasks.prompts.compact import write_blocks


def chat(*blocks: tuple[str, str], reasoning: str = "Let me see.") -> str:
    fenced = "\n".join(
        f"```{'python' if label == 'program' else label}\n{text}\n```" for label, text in blocks
    )
    return f"<think>\n{reasoning}\n</think>\n<answer>\n{fenced}\n</answer>"


def compact(*blocks: tuple[str, str], reasoning: str = "x = 1") -> str:
    return write_blocks([("think", reasoning), *blocks])


WRITERS = {"chat": chat, "compact": compact}
