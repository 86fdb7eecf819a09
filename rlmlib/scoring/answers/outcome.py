"""What a comparison without a judge can say."""

from typing import Literal

Verdict3 = Literal["correct", "incorrect", "ask_judge"]

CORRECT: Verdict3 = "correct"
INCORRECT: Verdict3 = "incorrect"
ASK: Verdict3 = "ask_judge"
