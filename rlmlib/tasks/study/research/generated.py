"""An example over a generated world: all its pages and one question about them."""

from dataclasses import dataclass

from .kinds import HELD_OUT, KINDS
from .names import Split
from .questions import Question, ask
from .render import page_pieces
from .world import FEWEST_PAGES, World, make_world

MOST_PAGES = 400
TOKENS_A_PAGE = 350  # on average; measured


@dataclass(frozen=True)
class WorldSpec:
    """All that it takes to make a world and its pages again."""

    split: Split
    seed: str
    pages: int

    def world(self) -> World:
        return make_world(self.split, self.seed, self.pages)

    def pieces(self, world: World) -> list[str]:
        """All pages of the world, as pieces of a context."""
        return page_pieces(world, self.seed)

    def question(self, world: World, number: int) -> Question | None:
        """The kinds take turns by number, and one that the world is too small for is passed over; None where all are."""
        kinds = [*KINDS, *HELD_OUT] if self.split == "eval" else [*KINDS]
        first = number % len(kinds)
        return next((found for kind in [*kinds[first:], *kinds[:first]] if (found := ask(world, kind, self.seed))), None)


def world_size(tokens: int) -> int:
    """Pages of a world that is to have about so many tokens."""
    return max(FEWEST_PAGES, min(MOST_PAGES, round(tokens / TOKENS_A_PAGE)))
