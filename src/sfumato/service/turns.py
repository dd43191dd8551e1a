"""Whose question is next: analysts take turns, so that the many questions of one make nobody else wait.

All of it belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

Turn = asyncio.Future[None]


class Turns:
    """Places where questions are answered, one at each, which analysts take by turns.

    A free place goes to the analyst who has the fewest; of several to the one whose last turn began longest
    ago; and there to the question that came first. Nobody has all places, where there is more than one: the
    last one is kept for whoever comes next.

    Args:
        places: how many questions are answered at once.

    >>> async def example():
    ...     turns, order = Turns(1), []
    ...     async def ask(who):
    ...         await turns.take(who)
    ...         order.append(who)
    ...         await asyncio.sleep(0)
    ...         turns.over(who)
    ...     await asyncio.gather(*map(ask, ["ann", "ann", "ann", "bob", "bob"]))
    ...     return order
    >>> asyncio.run(example())
    ['ann', 'bob', 'ann', 'bob', 'ann']
    """

    def __init__(self, places: int) -> None:
        self._places, self._most = places, max(1, places - 1)
        self._taken = Counter[str]()
        self._waiting = dict[str, deque[Turn]]()
        # The number of everybody's last turn: of names with tokens, which the owner makes, so few.
        self._last, self._number = dict[str, int](), 0

    async def take(self, who: str) -> None:
        """Wait for a turn, which `over` ends; whoever is cancelled before it comes has none."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(who, turn)
            else:  # it came at that moment
                self.over(who)
            raise

    def over(self, who: str) -> None:
        """End a turn: its place is free for the next one."""
        self._taken[who] -= 1
        self._taken += Counter()  # drops names at 0
        self._give()

    def _give(self) -> None:
        """Give free places to those who wait."""
        while self._taken.total() < self._places:
            may = [who for who in self._waiting if self._taken[who] < self._most]
            if not may:
                return
            who = min(may, key=lambda one: (self._taken[one], self._last.get(one, 0)))
            turn = self._waiting[who][0]
            self._leave(who, turn)
            if not turn.done():  # as one is that was cancelled, and has not left yet
                self._number += 1
                self._taken[who] += 1
                self._last[who] = self._number
                turn.set_result(None)

    def _leave(self, who: str, turn: Turn) -> None:
        line = self._waiting.get(who)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[who]
