"""The search graph of a dataset: what is left of it when records are removed one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from sfumato.audit.datasets import without

Node = tuple[int, ...]
S = TypeVar("S")


class SearchGraph(Generic[S]):
    """Subsets of a dataset's records; an edge leads from each to those with one record less.

    Args:
        dataset: a sequence of records: list, tuple, array, or a table with `take` or `iloc`.
        sample: draws from a mechanism on a dataset, and remembers them: `Kept`. It is given the dataset and a
            place that tells it from the other subsets of this graph.

    A dataset of n records has 2^n subsets and n 2^(n - 1) edges.

    >>> from sfumato.audit.histogram.kept import Kept
    >>> graph = SearchGraph(["a", "b"], Kept(len))
    >>> [(graph.records(node), graph.records(next_)) for node, next_ in graph.edges()]
    [(['a', 'b'], ['b']), (['a', 'b'], ['a']), (['a'], []), (['b'], [])]

    Source:
        Desfontaines 2020, figure 4.15 and the algorithm after it; Wilson et al. 2020, section 5.3.
    """

    def __init__(self, dataset: Any, sample: Callable[[Any, Hashable], S]) -> None:
        self.dataset = dataset
        self.root: Node = tuple(range(len(dataset)))
        self._sample = sample

    @property
    def edge_count(self) -> int:
        """Number of edges."""
        return len(self.root) << max(len(self.root) - 1, 0)

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
        """Draw on a node's records, where there are no draws of such records yet."""
        return self._sample(self.records(node), (id(self), node))

    def records(self, node: Node) -> Any:
        """Return the records of a node as a dataset of the same kind."""
        kept, found = set(node), self.dataset
        for i in reversed(self.root):
            if i not in kept:
                found = without(found, i)
        return found
