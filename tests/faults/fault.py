"""A seeded fault, and how it is found."""

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"

REFUSED = "refused"
HARMLESS = "harmless: "


@dataclass(frozen=True)
class Fault:
    """A small change of the source that breaks a guarantee, or looks as if it did.

    Args:
        name: what it breaks, in a few words; unique.
        file: the file that it changes, below src/sfumato.
        old: a text that is there exactly once.
        new: what stands in its place.
        found: "refused", where each release that it changes is refused, or provably stays within its claim,
            and one is refused at least; the path of a test, with or without "::name", that fails; or
            "harmless: " and why, where no release is refused, and each that it changes provably stays within
            its claim.
        elsewhere: whether the test runs programs or workers in processes of their own.
    """

    name: str
    file: str
    old: str
    new: str
    found: str = REFUSED
    elsewhere: bool = False

    @property
    def harmless(self) -> bool:
        """Whether it breaks nothing."""
        return self.found.startswith(HARMLESS)

    @property
    def tested(self) -> bool:
        """Whether a test finds it."""
        return self.found != REFUSED and not self.harmless

    def patched(self) -> str:
        """Return the text of the file with the fault.

        Raises:
            ValueError: the old text is not there, or not once.
        """
        text = (SOURCE / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {text.count(self.old)} times in {self.file}: {self.old}")
        return text.replace(self.old, self.new)
