"""What a search costs in steps: a backtracking matcher that counts, for Python's own patterns.

Time differs from machine to machine; how often a backtracking matcher looks at a character does
not. Python's engine takes short cuts that this one does not: the count is an upper bound.
"""

import re
import sys
from collections.abc import Callable, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

Rest = Callable[[int], bool]
_DEPTH = 20_000
_SINGLE = {op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN}


class TooDearError(Exception):
    """The search took more steps than were allowed."""


class _Matcher:
    def __init__(self, pattern: str, text: str, limit: int) -> None:
        self._tree = _parser.parse(pattern)
        self._text = text
        self._limit = limit
        self._ignore_case = bool(self._tree.state.flags & re.IGNORECASE)
        self.steps = 0

    def search(self) -> bool:
        starts = range(len(self._text) + 1)
        return any(self._run(self._tree, 0, start, lambda _: True) for start in starts)

    def _step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self._limit:
            raise TooDearError

    def _run(self, nodes: Sequence[Any], index: int, at: int, rest: Rest) -> bool:
        while index < len(nodes):
            code, argument = nodes[index]
            self._step()
            if code in _SINGLE:
                if at >= len(self._text) or not self._takes(code, argument, self._text[at]):
                    return False
                at, index = at + 1, index + 1
                continue
            return self._branch(code, argument, at, self._following(nodes, index + 1, rest))
        return rest(at)

    def _following(self, nodes: Sequence[Any], index: int, rest: Rest) -> Rest:
        return lambda then: self._run(nodes, index, then, rest)

    def _branch(self, code: Any, argument: Any, at: int, rest: Rest) -> bool:
        text = self._text
        if code is op.SUBPATTERN:
            run = self._without_case if argument[1] & re.IGNORECASE else self._with_case
            return run(argument[-1], at, rest)
        if code is op.BRANCH:
            return any(self._run(one, 0, at, rest) for one in argument[1])
        if code in {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}:
            return self._repeat(code, argument, at, rest)
        if code in {op.ASSERT, op.ASSERT_NOT}:
            direction, nodes = argument
            start = at - nodes.getwidth()[0] if direction < 0 else at
            found = start >= 0 and self._run(nodes, 0, start, lambda _: True)
            return found is (code is op.ASSERT) and rest(at)
        if code is op.ATOMIC_GROUP:
            return self._atomic(argument, at, rest)
        if code is op.AT:
            return _stands(argument, text, at) and rest(at)
        raise NotImplementedError(code)

    def _with_case(self, nodes: Sequence[Any], at: int, rest: Rest) -> bool:
        return self._run(nodes, 0, at, rest)

    def _without_case(self, nodes: Sequence[Any], at: int, rest: Rest) -> bool:
        """A group `(?i:…)`; what comes behind it is held against the text as before."""
        before, self._ignore_case = self._ignore_case, True

        def outside(then: int) -> bool:
            self._ignore_case = before
            found = rest(then)
            self._ignore_case = True
            return found

        try:
            return self._run(nodes, 0, at, outside)
        finally:
            self._ignore_case = before

    def _atomic(self, nodes: Sequence[Any], at: int, rest: Rest) -> bool:
        ends: list[int] = []

        def first(then: int) -> bool:
            ends.append(then)
            return True

        return self._run(nodes, 0, at, first) and rest(ends[0])

    def _repeat(self, code: Any, argument: Any, at: int, rest: Rest) -> bool:
        least, most, body = argument
        if len(body) == 1 and body[0][0] in _SINGLE:
            return self._repeat_one(code, argument, at, rest)

        def more(count: int, start: int) -> bool:
            self._step()

            def again(then: int) -> bool:
                return then > start and more(count + 1, then)

            if count < least:
                return self._run(body, 0, start, lambda then: more(count + 1, then))
            if code is op.MIN_REPEAT:
                return rest(start) or (count < most and self._run(body, 0, start, again))
            return (count < most and self._run(body, 0, start, again)) or rest(start)

        return more(0, at)

    def _repeat_one(self, code: Any, argument: Any, at: int, rest: Rest) -> bool:
        least, most, [(kind, what)] = argument
        most = min(most if most is not op.MAXREPEAT else len(self._text), len(self._text) - at)
        if code is op.MIN_REPEAT:
            for count in range(most + 1):
                self._step()
                if count >= least and rest(at + count):
                    return True
                if count == most or not self._takes(kind, what, self._text[at + count]):
                    return False
            return False
        count = 0
        while count < most and self._takes(kind, what, self._text[at + count]):
            count += 1
        self._step(count + 1)
        if code is op.POSSESSIVE_REPEAT:
            return count >= least and rest(at + count)
        return any(rest(at + taken) for taken in range(count, least - 1, -1))

    def _takes(self, code: Any, argument: Any, letter: str) -> bool:
        if code is op.ANY:
            return letter != "\n"
        if self._ignore_case:
            cases = {letter.lower(), letter.upper()}
            return any(self._takes_exactly(code, argument, one) for one in cases)
        return self._takes_exactly(code, argument, letter)

    def _takes_exactly(self, code: Any, argument: Any, letter: str) -> bool:
        if code is op.LITERAL:
            return bool(ord(letter) == argument)
        if code is op.NOT_LITERAL:
            return bool(ord(letter) != argument)
        negated = argument[0][0] is op.NEGATE
        return any(_in_class(one, letter) for one in argument) is not negated


def _in_class(item: Any, letter: str) -> bool:
    code, argument = item
    if code is op.LITERAL:
        return bool(ord(letter) == argument)
    if code is op.RANGE:
        return bool(argument[0] <= ord(letter) <= argument[1])
    if code is op.CATEGORY:
        classes = {
            op.CATEGORY_DIGIT: r"\d",
            op.CATEGORY_NOT_DIGIT: r"\D",
            op.CATEGORY_SPACE: r"\s",
            op.CATEGORY_NOT_SPACE: r"\S",
            op.CATEGORY_WORD: r"\w",
            op.CATEGORY_NOT_WORD: r"\W",
        }
        return re.match(classes[argument], letter) is not None
    return False  # NEGATE


def _stands(where: Any, text: str, at: int) -> bool:
    if where in {op.AT_BEGINNING, op.AT_BEGINNING_STRING}:
        return at == 0
    if where in {op.AT_END, op.AT_END_STRING}:
        return at >= len(text) - (1 if text.endswith("\n") else 0)
    is_word = [0 <= spot < len(text) and re.match(r"\w", text[spot]) for spot in (at - 1, at)]
    at_boundary = bool(is_word[0]) is not bool(is_word[1])
    return at_boundary is (where is op.AT_BOUNDARY)


def search_steps(pattern: str, text: str, limit: int) -> tuple[bool, int]:
    """Is the pattern in the text, and how many steps did it take to know?

    Raises:
        TooDearError: it took more than `limit`.

    """
    matcher = _Matcher(pattern, text, limit)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        return matcher.search(), matcher.steps
    finally:
        sys.setrecursionlimit(before)
