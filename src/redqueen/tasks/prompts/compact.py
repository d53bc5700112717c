"""The compact format, for tiny models: no words, only marked blocks. A mark is a line that no
Python program starts with.

>>student code_o          >>teacher code_o
>>program                 >>program ... >>input ... >>output ...
def f(x): ...             >>new
>>input                   (the model writes:)
3                         >>program
>>answer                  def f(a): ...
(the model writes:)       >>input
>>think                   3
x = 3                     >>end
>>output
6
>>end
"""

from redqueen.tasks.kind import Block, Malformed, Request
from redqueen.tasks.prompts.format import Prompt, Quote, join_parts

_MARK = ">>"
_END = ">>end"


class CompactFormat:
    """Marked blocks and no words: for tiny models such as Pawn."""

    name = "compact"

    def render(self, request: Request) -> Prompt:
        parts = [f"{_MARK}{request.role} {request.kind}\n"]
        for label, text in [block for example in request.examples for block in example] + list(
            request.given
        ):
            parts += [f"{_MARK}{label}\n", Quote(_indent_marks(text.rstrip())), "\n"]
        parts.append(_MARK + ("new\n" if request.role == "teacher" else "answer\n"))
        text, quotes = join_parts(parts)
        return Prompt(text, None, (_END,), quotes=quotes)

    def reasoning_prefix(self, kind: str) -> str:
        """Pawn has learned to reason about outputs only."""
        return f"{_MARK}think\n" if kind == "code_o" else ""

    def write_reply(self, reasoning: str, blocks: tuple[Block, ...]) -> list[str]:
        first = (("think", reasoning),) if reasoning else ()
        parts: list[str] = []
        for label, text in (*first, *blocks):
            parts += [f"{_MARK}{label}\n", Quote(_indent_marks(text.rstrip())), "\n"]
        return [*parts, _END]

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        blocks: list[tuple[str, list[str]]] = []
        for line in text.partition(_END)[0].splitlines():
            if line.startswith(_MARK):
                blocks.append((line.removeprefix(_MARK).strip(), []))
            elif blocks:
                blocks[-1][1].append(line)
            elif line.strip():
                raise Malformed("text before the first mark")
        written = [(label, "\n".join(body)) for label, body in blocks if label != "think"]
        if [label for label, _ in written] != list(wanted):
            raise Malformed(
                "blocks "
                + ", ".join(label[:20] for label, _ in written[:12])
                + "; expected "
                + ", ".join(wanted)
            )
        return written


def write_blocks(blocks: list[Block]) -> str:
    """Blocks as a model would write them: what `parse` reads."""
    return "".join(f"{_MARK}{label}\n{text.rstrip()}\n" for label, text in blocks) + _END


def _indent_marks(text: str) -> str:
    """No line begins as a mark does. Only the middle of an expression or of a long text can."""
    return "".join(
        " " + line if line.startswith(_MARK) else line for line in text.splitlines(keepends=True)
    )
