"""Random statements: assignments, changes, branches, loops, returns.

Whoever writes a statement gives it `room`, the most statements it may take with all inside it, and
its `nesting`, how many blocks it is in. A method that cannot go on raises DeadEnd and may leave the
scope half changed: the writer restores it.
"""

from operator import itemgetter

from redqueen.pawn.choices import Choices
from redqueen.pawn.expressions import Expressions, then, variable
from redqueen.pawn.grammar import INT, LOCAL_NAMES, TIERS, TYPES
from redqueen.pawn.loops import Loops, assign, count_down
from redqueen.pawn.scope import Scope
from redqueen.pawn.tree import Branch, DeadEnd, Expr, Jump, Line, Loop, Return, Statement, walk


class Statements:
    def __init__(self, choices: Choices, scope: Scope, tier: int) -> None:
        self.choices, self.scope, self.tier, self.bounds = choices, scope, tier, TIERS[tier]
        self.expressions = Expressions(choices, scope, tier)
        self.loops = Loops(choices, scope, self.expressions, tier)
        self.blocks_left = self.bounds.blocks

    def sample(self, room: int, nesting: int) -> list[Statement]:
        """One statement, after those that it needs before it."""
        if (
            self.blocks_left > 0
            and room >= 2
            and nesting < self.bounds.nesting
            and self.choices.flip(0.6)
        ):
            self.blocks_left -= 1
            return self._block(room, nesting)
        changeable = self.scope.changeable()
        if changeable and self.choices.flip(0.75 if nesting else 0.25):
            return [self._change(self.choices.pick(changeable))]
        return [self._assignment()]

    def sample_return(self) -> Return:
        choices, scope = self.choices, self.scope
        computed = [
            name for name in scope.fresh if name in scope.types and name not in scope.unchanged
        ]
        if len(computed) > 1 and self.tier >= 3 and choices.flip(0.8):
            return Return(self._collection(computed[-3:] if self.tier >= 6 else computed[-2:]))
        if computed and choices.flip(0.3):
            return Return(variable(choices.pick(computed)))
        kind = scope.types[choices.pick(computed or scope.fresh or list(scope.types))]
        value = self.expressions.sample(
            kind if choices.flip(0.5) else choices.pick(TYPES),
            2 if self.tier == 1 and choices.flip(0.4) else 1,
        )
        if not value.uses:
            raise DeadEnd
        return Return(value)

    def _collection(self, names: list[str]) -> Expr:
        """Several variables as a tuple or a list."""
        text, values, uses = ", ".join(names), itemgetter(*names), frozenset(names)
        if self.choices.flip(0.5):
            return Expr(f"({text})", values, uses, ("both",))
        return Expr(f"[{text}]", then(values, list), uses, ("both",))

    def _assignment(self) -> Line:
        kind = self.choices.pick(TYPES)
        value = self.expressions.sample(kind, self.bounds.depth)
        if not value.words or not value.uses:
            raise DeadEnd
        name = self.scope.add(kind, LOCAL_NAMES)
        text = f"{name} = {value.text}"
        return Line(name, text, assign(name, value.value), value.uses, value.words)

    def _change(self, name: str) -> Line:
        template = self.expressions.choose(self.scope.types[name], changes=True)
        kind = self.scope.types.pop(name)  # not on its own right side: `a += a`
        value = self.expressions.fill(template, self.bounds.depth - 1, name)
        self.scope.types[name] = kind
        self.scope.refresh(name)
        self.scope.unchanged.discard(name)
        return Line(name, value.text, value.value, value.uses, value.words, changes=True)

    def _block(self, room: int, nesting: int) -> list[Statement]:
        choice = self.choices.random()
        if choice < 0.3 or self.tier == 2:
            return [self._branch(room, nesting)]
        if choice < 0.4 and nesting == 0 and self.tier >= 3:
            return [Branch(self.expressions.sample_test(), [self.sample_return()])]
        if choice < 0.5 and self.tier >= 4:
            return self._while_loop(room, nesting)
        return self._for_loop(room, nesting)

    def _branch(self, room: int, nesting: int) -> Branch:
        """One variable, changed in one way or another."""
        scope = self.scope
        test = self.expressions.sample_test()
        changeable = scope.changeable()
        if not changeable:
            raise DeadEnd
        name = self.choices.pick(changeable)
        types, fresh = scope.types, scope.fresh
        scope.types, scope.fresh = dict(types), list(fresh)
        body: list[Statement] = [self._change(name)]
        if room >= 4 and self.choices.flip(0.3):
            body += self.sample(1, nesting + 1)
        scope.types, scope.fresh = dict(types), list(fresh)
        orelse: list[Statement] = [self._change(name)] if self.choices.flip(0.5) else []
        scope.types, scope.fresh = types, fresh
        scope.refresh(name)
        return Branch(test, body, orelse)

    def _for_loop(self, room: int, nesting: int) -> list[Statement]:
        before, accumulator = self.loops.sample_accumulator(nesting)
        head = self.loops.sample_head()
        body = self._loop_body(
            head.targets, head.uses, accumulator, room - 1 - len(before), nesting
        )
        words = ("for", *head.words)
        return [*before, Loop(head.text, head.turns, head.uses, words, tuple(head.targets), body)]

    def _while_loop(self, room: int, nesting: int) -> list[Statement]:
        counters = [name for name in self.scope.changeable() if self.scope.types[name] == INT]
        if not counters:
            raise DeadEnd
        counter = self.choices.pick(counters)
        uses = frozenset([counter])
        before, accumulator = self.loops.sample_accumulator(nesting)
        body = self._loop_body({}, uses, accumulator, room - 2 - len(before), nesting)
        body.append(self.loops.sample_countdown(counter))
        least = self.choices.between(0, 5)
        text, turns = f"while {counter} > {least}:", count_down(counter, least)
        return [*before, Loop(text, turns, uses, ("while",), (), body)]

    def _loop_body(
        self,
        targets: dict[str, str],
        uses: frozenset[str],
        accumulator: str,
        room: int,
        nesting: int,
    ) -> list[Statement]:
        body: list[Statement] = []
        with self.scope.loop(targets, uses, accumulator):
            if self.tier >= 5 and room >= 3 and self.choices.flip(0.15):
                body.append(self._early_exit(is_while=not targets))
            if (
                self.blocks_left > 0
                and room >= 3
                and nesting + 1 < self.bounds.nesting
                and self.choices.flip(0.4)
            ):
                self.blocks_left -= 1
                body += self._for_loop(room - 1, nesting + 1)
            body.append(self._accumulate(accumulator))
            while len(walk(body)) < min(room, 3) and self.choices.flip(0.5):
                body += self.sample(1, nesting + 1)
        return body

    def _early_exit(self, is_while: bool) -> Branch:
        """No `continue` in a while loop: it would skip the line that makes the loop end."""
        test = self.expressions.sample_test()
        return Branch(
            test, [Jump("break" if is_while else self.choices.pick(("break", "continue")))]
        )

    def _accumulate(self, name: str) -> Statement:
        if name in self.scope.fixed:
            raise DeadEnd
        if self.tier < 4 or not self.choices.flip(0.4):
            return self._change(name)
        test = self.expressions.sample_test()
        orelse: list[Statement] = [self._change(name)] if self.choices.flip(0.3) else []
        return Branch(test, [self._change(name)], orelse)
