"""The search graph of a dataset: what is left of it when records are removed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

Node = tuple[int, ...]
S = TypeVar("S")


class SearchGraph(Generic[S]):
    """Subsets of a dataset's records; an edge leads from each to those with one record less.

    Args:
        dataset: a sequence of records: list, tuple, array, or a table with `take` or `iloc`.
        sample: draws from a mechanism on a dataset.

    A dataset of n records has 2^n subsets and n 2^(n - 1) edges.

    >>> graph = SearchGraph(["a", "b"], sample=len)
    >>> [(graph.records(node), graph.records(next_)) for node, next_ in graph.edges()]
    [(['a', 'b'], ['b']), (['a', 'b'], ['a']), (['a'], []), (['b'], [])]

    Source:
        The specification's figure 4.15 and its algorithm; Wilson et al. 2020, section 5.3.
    """

    def __init__(self, dataset: Any, sample: Callable[[Any], S]) -> None:
        self.dataset = dataset
        self.root: Node = tuple(range(len(dataset)))
        self._sample = sample
        self._cache: dict[Node, S] = {}

    def edges(self) -> Iterator[tuple[Node, Node]]:
        """Give each edge once, depth first."""
        stack, seen = [self.root], {self.root}
        while stack:
            node = stack.pop()
            for successor in (node[:i] + node[i + 1 :] for i in range(len(node))):
                yield node, successor
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)

    def samples(self, node: Node) -> S:
        """Draw on a node's records; the same draws each time it is asked."""
        if node not in self._cache:
            self._cache[node] = self._sample(self.records(node))
        return self._cache[node]

    def records(self, node: Node) -> Any:
        """Return the records of a node as a dataset of the same kind."""
        return self.dataset if node == self.root else subset(self.dataset, node)


def subset(dataset: Any, places: Node) -> Any:
    """Return some records of a dataset, as a dataset of the same kind."""
    if isinstance(dataset, (list, tuple)):
        return type(dataset)(dataset[i] for i in places)
    index = np.array(places, np.int64)
    if hasattr(dataset, "iloc"):
        return dataset.iloc[index]
    if hasattr(dataset, "take"):
        return dataset.take(index, axis=0) if isinstance(dataset, np.ndarray) else dataset.take(index)
    return dataset[list(places)]
