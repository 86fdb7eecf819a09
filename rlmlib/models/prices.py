"""What tokens cost. Dollars per million tokens, text, paid tier, without discounts for cached or batched prompts.

Only models with one price for every prompt length are listed; a model that is not listed has no known price.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Price(NamedTuple):
    """Dollars per million tokens. Thinking tokens are billed as output."""

    input: float
    output: float


FREE = Price(0.0, 0.0)  # for a server of one's own: prices={"its model": FREE}

# As published at https://ai.google.dev/gemini-api/docs/pricing in the month beside each.
PRICES: Mapping[str, Price] = {
    "gemini-3.1-flash-lite": Price(0.25, 1.50),  # 2026-05
    "gemini-3-flash-preview": Price(0.50, 3.00),  # 2026-07
    "gemini-3.5-flash": Price(1.50, 9.00),  # 2026-10
    "gemini-3.5-flash-lite": Price(0.30, 2.50),  # 2026-10
}


def dollars(
    model: str, prompt_tokens: int, completion_tokens: int, overrides: Mapping[str, tuple[float, float]] | None = None
) -> float | None:
    """Cost of some tokens, or None where the price is not known. `overrides` maps models to (input, output) prices."""
    table = {**PRICES, **(overrides or {})}
    price = table.get(model.removeprefix("models/"))
    if price is None:
        return None
    per_input, per_output = price
    return (prompt_tokens * per_input + completion_tokens * per_output) / 1e6
