"""The chat format of any Hugging Face tokenizer with a chat template, held to prompts that only ever grow."""

import datetime
import re
from collections.abc import Callable, Iterable

from ..errors import ConfigError
from .base import Message

A_DAY = datetime.datetime(2024, 7, 26)  # what a template that prints a date is told
BREAK = "¦"  # parts text that spells a token; no usual normaliser changes or drops it
BLANKS = " \t\r\n▁"
THOUGHT = re.compile(r"<think>.*?</think>\s*|<think>\s*$", re.DOTALL)
SYSTEM = "The system says alpha."
USERS = ("A user asks bravo.", "Then comes charlie.", "At last delta.")
REPLIES = ("The reply is echo.", "Now it is foxtrot.")
THOUGHTS = ("It must be golf.", "Perhaps it is hotel.")


class TemplateChat:
    """Implements ChatFormat for a transformers tokenizer that has a chat template.

    The first messages are rendered by the template, with the opening of a reply. Of later ones only what follows the end token
    of a reply is rendered, found behind a conversation of stand-ins, so that nothing sampled is ever rendered again. Each
    rendering is tokenised as a whole, with no special tokens but those that the template writes.

    - Text in a message that spells a special or added token stays text: it is parted, as in `<¦|im_end|>`.
    - The end token is the one that the template writes after a reply, whatever the tokenizer says of itself.
    - A template that only drops the `<think>...</think>` of earlier turns is taken, and what was sampled is kept all the same. The
      policy is sampled and trained on the same tokens, so this is sound; it sees old thoughts that its template would leave out.
    - A date in a template is held at one day, so that a run can be repeated and resumed.

    Raises ConfigError where there is no template, and where what it wrote so far does not stay as it was: it refuses such a
    conversation, leaves a message out, ends replies by no token, or moves and rewrites earlier turns. That is found out with three
    turns, with a system message and without, with thoughts and without. A conversation that ends in a reply is never rendered,
    so how a template writes the last reply does not matter.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.name = getattr(tokenizer, "name_or_path", "") or "the tokenizer"
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(f"policy.model: {self.name} has no chat template, as base models have none; choose an instruct model")
        added = tokenizer.get_added_vocab()
        self._spelled = _starts_of(added)
        self._normalise, self._normalised = _normaliser(tokenizer)
        self._stub = _conversation(replies=1, system=True)
        self._before, self.end = self._up_to_the_end_of_a_reply(added)
        self.end_id = added[self.end]
        self.pad_id = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        for system in (True, False):
            for thoughts in (True, False):
                self._check(system, thoughts)

    def prompt_ids(self, messages: list[Message], first: bool = True) -> list[int]:
        turns = [{"role": message.role, "content": self.plain(message.content)} for message in messages]
        if first:
            return self._encode(self._render(turns))
        return self._encode(self.end + self._continuation(turns))[1:]  # behind its end token it is split as in the whole

    def reply_text(self, ids: list[int]) -> str:
        kept = [i for i in ids if i != self.end_id]
        # the clean-up that older tokenizers ask for takes blanks away, which mean something in code
        return self.tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def plain(self, text: str) -> str:
        """A text that spells no special or added token; it is changed only where it did."""
        text = self._spelled.sub(rf"\g<0>{BREAK}", text.encode("utf-8", "replace").decode())
        if self._normalised is not None:
            normal = self._normalise(text)
            if self._normalised.search(normal):
                text = self._normalised.sub(rf"\g<0>{BREAK}", normal)
        return text

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, verbose=False)

    def _render(self, turns: list[dict]) -> str:
        """A conversation and the opening of the next reply."""
        try:
            return self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, strftime_now=A_DAY.strftime)
        except Exception as error:  # noqa: BLE001 - templates raise what they like
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise self._refused(f"refuses a conversation of {', '.join(turn['role'] for turn in turns)} ({why})") from None

    def _continuation(self, turns: list[dict]) -> str:
        """What the template writes after the end token of a reply: the turns and the opening of the next one."""
        text = self._render(self._stub + turns)
        if not text.startswith(self._before):
            raise self._refused("rewrites earlier turns when new ones follow")
        return text[len(self._before) :]

    def _up_to_the_end_of_a_reply(self, added: dict[str, int]) -> tuple[str, str]:
        """The stand-ins as rendered before another turn, up to their end token, which is in it; and the end token."""
        asked = self._render(self._stub[:-1])
        text = self._render([*self._stub, {"role": "user", "content": USERS[1]}])
        begin, reply, after = text.partition(REPLIES[0])
        if SYSTEM not in asked or USERS[0] not in asked or not reply or USERS[1] not in after:
            raise self._refused("leaves messages out")
        trail = after[: len(after) - len(after.lstrip())]
        end = _any_of(added).match(after, len(trail))
        if end is None:
            raise self._refused("ends a reply by no token of its own")
        return begin + reply + trail + end[0], end[0]

    def _check(self, system: bool, thoughts: bool):
        """A conversation as it grows turn by turn against the same one rendered at once, thoughts left out of both.

        Blanks do not count: a template may trim replies, or write a blank before them that the policy samples itself.
        """
        turns = _conversation(replies=0, system=system)
        grown = self._render(turns)
        for reply, thought, question in zip(REPLIES, THOUGHTS, USERS[1:], strict=True):
            written = f"<think>\n{thought}\n</think>\n\n{reply}" if thoughts else reply
            said = written
            if grown.rstrip().endswith("<think>"):  # the opening of a reply begins its thoughts
                said = f"{thought if thoughts else ''}\n</think>\n\n{reply}"
            user = {"role": "user", "content": question}
            turns = [*turns, {"role": "assistant", "content": written}, user]
            grown += said + self.end + self._continuation([user])
            if _bare(grown) != _bare(self._render(turns)):
                raise self._refused("rewrites earlier turns when new ones follow")

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(
            f"policy.model: the chat template of {self.name} {why}, so a conversation cannot grow token by token; choose another model, "
            "or put a chat_template.jinja in its folder that takes system, user and assistant turns and never changes earlier ones"
        )


def _conversation(replies: int, system: bool) -> list[dict]:
    """Stand-ins: a question, or a question and its reply."""
    turns = [{"role": "system", "content": SYSTEM}] if system else []
    turns.append({"role": "user", "content": USERS[0]})
    return turns + [{"role": "assistant", "content": reply} for reply in REPLIES[:replies]]


def _bare(text: str) -> str:
    return "".join(THOUGHT.sub("", text).split())


def _any_of(tokens: Iterable[str]) -> re.Pattern:
    """Matches the longest of some tokens; nothing where there are none."""
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")


def _starts_of(tokens: Iterable[str]) -> re.Pattern:
    """Matches the first character of every place where a token is spelled, overlapping ones too. Runs of blanks are only text."""
    return re.compile(f"(?={_any_of(t for t in tokens if len(t.strip(BLANKS)) > 1).pattern}).", re.DOTALL)


def _normaliser(tokenizer) -> tuple[Callable[[str], str] | None, re.Pattern | None]:
    """The tokenizer's normaliser and the tokens that it looks for in normalised text, or None twice."""
    normaliser = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    tokens = [token.content for token in tokenizer.added_tokens_decoder.values() if token.normalized]
    if normaliser is None or not tokens:
        return None, None
    return normaliser.normalize_str, _starts_of({*tokens, *map(normaliser.normalize_str, tokens)})
