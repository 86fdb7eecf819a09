"""What the model is told, as data. `full` is for language models, `compact` for the tiny policy.

Both sets fill the same places, so the turn loop does not know which one it uses.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PromptSet:
    """Templates. Places: {kind} {chars} {question} {output} {left}; in `system`: {recursion} {ending}."""

    system: str
    recursion: dict[bool, str]  # whether rlm_query starts children -> how it is explained
    ending: dict[str, str]  # harness.final -> how to answer
    start: str
    child_question: str
    observation: str
    block_output: str
    no_code: str
    finalise: str

    def system_for(self, children: bool, final: str) -> str:
        return self.system.format(recursion=self.recursion[children], ending=self.ending[final])


COMPACT = PromptSet(
    system="rlm",
    recursion={False: "", True: ""},
    ending={"call": "", "answer_dict": ""},
    start="{kind} {chars}\n{question}",
    child_question="Do what `context` asks.",
    observation="{output}\n[{left} left]",
    block_output="{output}",
    no_code="no code",
    finalise="FINAL now",
)

FULL = PromptSet(
    system="""You answer a question about a text that is too long to read at once. The text is held in the
variable `context` of a Python session that keeps its state between your turns. Be the conductor, not the reader.

To run code, write a fenced block tagged repl. You then see what it printed, cut to a few thousand characters.
The session offers
- context: the text
- llm_query(prompt): one call of a cheaper language model; it sees only the prompt you pass
- llm_query_batched(prompts): the same for a list, in parallel; answers come back in order
{recursion}
- budget(): a dict of what is left to you: calls, tokens, money, seconds
- SHOW_VARS(): the names you have defined
{ending}

How to work
1. Look at the shape of the context first; then write one block and observe its result.
2. Narrow down with code (search, split, count). Pass only short, relevant excerpts to llm_query, and ask for
   evidence or NOT_FOUND. Calls are limited and cost tokens.
3. Check what came back. Three to five turns are normal.
4. The answer is short: a name, a number, a label, a date, a path.""",
    recursion={
        False: "- rlm_query(prompt), rlm_query_batched(prompts): the same as the llm_query functions",
        True: """- rlm_query(prompt), rlm_query_batched(prompts): a helper like you, in a session of its own, with the prompt as its
  `context`; for parts that need several steps themselves. It draws on your budget, so use it seldom""",
    },
    ending={
        "call": """- FINAL(value), FINAL_VAR("name"): give the answer and stop; you may also write FINAL(answer) or FINAL_VAR(name)
  on a line of its own, outside any block""",
        "answer_dict": """- answer: a dict; put your answer in answer["content"], and set answer["ready"] = True to give it and stop""",
    },
    start="""The variable `context` is a {kind} of {chars} characters.

Question: {question}""",
    child_question="The text in `context` is a request, with what you need to fulfil it. Do what it asks and answer with the result.",
    observation="""{output}

Subcalls left: {left}. Question, again: {question}""",
    block_output="Output:\n{output}",
    no_code="There was neither a repl block nor a final answer in that reply. Write one of the two.",
    finalise="""No turns are left. Reply with the final answer alone, as FINAL(answer) or FINAL_VAR(name).

Question: {question}""",
)

PROMPT_SETS = {"compact": COMPACT, "full": FULL}
