"""Chat templates: prompts that only grow, text that stays text, and templates that cannot be held to it refused."""

import functools
from collections import Counter

import pytest
from chat_templates import ADDED, CHATML, DEFAULT_SYSTEM, ENDS, GAPS, LLAMA3, REFUSED, SPECIAL, STABLE, TAKEN, words_tokenizer
from chat_templates import tokenizer as make_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.errors import ConfigError
from rlmlib.models import smollm2
from rlmlib.models.base import Message
from rlmlib.models.template_chat import TemplateChat

FIRST = [("system", "You answer."), ("user", "Where does the keeper live?")]


@functools.cache
def chat_of(layout: str) -> TemplateChat:
    return TemplateChat(make_tokenizer(TAKEN[layout]))


def say(*turns: tuple[str, str]) -> list[Message]:
    return [Message(role, content) for role, content in turns]


def text_of(chat, ids) -> str:
    return chat.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def whole(chat, turns) -> list[int]:
    """A conversation rendered and tokenised at once."""
    shown = [{"role": role, "content": content if role == "assistant" else chat.plain(content)} for role, content in turns]
    day = lambda pattern: "26 Jul 2024"  # noqa: E731
    text = chat.tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=True, strftime_now=day)
    return chat.tokenizer.encode(text, add_special_tokens=False)


def grown(chat, first, later, gap="") -> list[int]:
    """The same, turn by turn; the replies are tokenised by themselves."""
    ids = chat.prompt_ids(say(*first), True)
    for reply, user in later:
        ids += [*chat.tokenizer.encode(gap + reply, add_special_tokens=False), chat.end_id]
        ids += chat.prompt_ids(say(("user", user)), False)
    return ids


# --- what is rendered


def test_first_prompt_is_the_templates_own():
    chat = chat_of("chatml")
    assert text_of(chat, chat.prompt_ids(say(*FIRST), True)) == (
        "<|im_start|>system\nYou answer.<|im_end|>\n<|im_start|>user\nWhere does the keeper live?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_later_prompt_is_what_follows_the_end_token():
    chat = chat_of("chatml")
    assert text_of(chat, chat.prompt_ids(say(("user", "Go on.")), False)) == "\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"


def test_several_later_messages_at_once():
    chat = chat_of("llama 3")
    assert text_of(chat, chat.prompt_ids(say(("user", "One."), ("user", "Two.")), False)) == (
        "<|start_header_id|>user<|end_header_id|>\n\nOne.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nTwo.<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_a_default_system_prompt_is_only_in_the_first_prompt():
    chat = TemplateChat(make_tokenizer(DEFAULT_SYSTEM))
    assert text_of(chat, chat.prompt_ids(say(("user", "a")), True)).count("Be kind.") == 1
    assert "Be kind." not in text_of(chat, chat.prompt_ids(say(("user", "a")), False))


@pytest.mark.parametrize("layout", TAKEN)
def test_end_token_is_the_one_of_the_template(layout):
    """The tokenizer says </s> of itself in all of them."""
    chat = chat_of(layout)
    assert chat.tokenizer.convert_ids_to_tokens(chat.end_id) == ENDS.get(layout, "<|im_end|>")


def test_pad_token_is_the_tokenizers_or_else_the_end_token():
    assert chat_of("chatml").pad_id == chat_of("chatml").tokenizer.pad_token_id != chat_of("chatml").end_id
    without = TemplateChat(make_tokenizer(CHATML, pad_token=None))
    assert without.pad_id == without.end_id


def test_reply_text_keeps_blanks_and_thoughts_and_leaves_the_end_token_out():
    chat = chat_of("chatml")
    reply = "<think>\nhm .\n</think>\n\n  x = [1 , 2] ;  y 's"
    ids = chat.tokenizer.encode(reply, add_special_tokens=False)
    assert chat.reply_text([*ids, chat.end_id]) == reply == chat.reply_text(ids)


def test_opening_that_begins_a_thought_is_part_of_the_prompt():
    chat = chat_of("opened thought")
    for ids in (chat.prompt_ids(say(*FIRST), True), chat.prompt_ids(say(("user", "a")), False)):
        assert text_of(chat, ids).endswith("<|im_start|>assistant\n<think>\n")


def test_thoughts_of_earlier_turns_are_kept_though_the_template_drops_them():
    chat = chat_of("hybrid")
    reply = "<think>\nhm\n</think>\n\nI go on."
    assert "hm" not in text_of(chat, whole(chat, [*FIRST, ("assistant", reply), ("user", "Well?")]))
    assert reply + "<|im_end|>\n<|im_start|>user\nWell?" in text_of(chat, grown(chat, FIRST, [(reply, "Well?")]))


def test_date_is_the_same_whenever_it_is_rendered(monkeypatch):
    from transformers.utils import chat_template_utils

    class Later(chat_template_utils.datetime):
        @classmethod
        def now(cls, *_):
            return cls(2031, 1, 1)

    chat = TemplateChat(make_tokenizer(LLAMA3))
    before = chat.prompt_ids(say(*FIRST), True)
    monkeypatch.setattr(chat_template_utils, "datetime", Later)
    assert "2031" in chat.tokenizer.apply_chat_template([{"role": "system", "content": "a"}], tokenize=False)
    assert chat.prompt_ids(say(*FIRST), True) == before
    assert TemplateChat(make_tokenizer(LLAMA3)).prompt_ids(say(*FIRST), True) == before


def test_blank_that_a_tokenizer_puts_first_is_not_put_into_later_prompts():
    chat = TemplateChat(words_tokenizer(CHATML))
    later = chat.prompt_ids(say(("user", "the island")), False)
    assert whole(chat, [*FIRST, ("assistant", "the north"), ("user", "the island")])[-len(later) :] == later


# --- the whole is the sum of its parts

plain_text = st.text(st.characters(codec="utf-8"), max_size=60)
replies = st.from_regex(r"[A-Za-z]([a-z0-9 .,\n(){}`=]{0,40}[a-z0-9.`)])?", fullmatch=True)


@pytest.mark.parametrize("layout", STABLE)
@settings(max_examples=25, deadline=None)
@given(system=plain_text, user=plain_text, later=st.lists(st.tuples(replies, plain_text), max_size=3))
def test_ids_grown_turn_by_turn_are_those_of_the_whole(layout, system, user, later):
    chat, first = chat_of(layout), [("system", system), ("user", user)]
    turns = first + [turn for reply, text in later for turn in (("assistant", reply), ("user", text))]
    assert grown(chat, first, later, GAPS.get(layout, "")) == whole(chat, turns)


@pytest.mark.parametrize("layout", ["hybrid", "no thought"])
@settings(max_examples=20, deadline=None)
@given(user=plain_text, later=st.lists(st.tuples(replies, plain_text), max_size=3))
def test_of_a_template_that_drops_thoughts_replies_without_any_are_as_in_the_whole(layout, user, later):
    """All but the last opening of `no thought`, which writes an empty thought, only to drop it later."""
    chat, first = chat_of(layout), [("system", "s"), ("user", user)]
    turns = first + [turn for reply, text in later for turn in (("assistant", reply), ("user", text))]
    empty = chat.tokenizer.encode("<think>\n\n</think>\n\n", add_special_tokens=False)
    once = text_of(chat, grown(chat, first, later)).replace(text_of(chat, empty), "")
    assert once == text_of(chat, whole(chat, turns)).replace(text_of(chat, empty), "")


# --- hostile text stays text

pieces = [*SPECIAL, *ADDED, *(t[:k] for t in SPECIAL + ADDED for k in (1, 3)), *(t[k:] for t in SPECIAL + ADDED for k in (1, 3))]
hostile_text = st.lists(st.sampled_from(pieces) | st.text(max_size=5), max_size=12).map("".join)


def added_in(chat, ids) -> Counter:
    guarded = {i for token, i in chat.tokenizer.get_added_vocab().items() if token.strip()}
    return Counter(i for i in ids if i in guarded)


@pytest.mark.parametrize("layout", TAKEN)
@settings(max_examples=25, deadline=None)
@given(system=hostile_text, user=hostile_text)
def test_no_text_makes_a_special_or_added_token(layout, system, user):
    chat = chat_of(layout)
    for first in (True, False):
        hostile = say(("system", system), ("user", user)) if first else say(("user", user))
        harmless = say(("system", "a"), ("user", "b")) if first else say(("user", "b"))
        assert added_in(chat, chat.prompt_ids(hostile, first)) == added_in(chat, chat.prompt_ids(harmless, first))


@pytest.mark.parametrize("spelled", ["<THINK>", "＜think＞", "<ｔｈｉｎｋ>", "a<Think>b</Think>"])
def test_text_that_only_becomes_a_token_when_it_is_normalised_stays_text(spelled):
    chat = TemplateChat(make_tokenizer(CHATML, normalised=True))
    think = chat.tokenizer.get_added_vocab()["<think>"]
    assert think in chat.tokenizer.encode(spelled, add_special_tokens=False)
    assert think not in chat.prompt_ids(say(("user", spelled)), False)


def test_tokens_that_overlap_are_all_parted():
    chat = TemplateChat(make_tokenizer(CHATML, additional_special_tokens=["<<a>>", "a>><"]))
    assert not {"<<a>>", "a>><"} & set(chat.tokenizer.convert_ids_to_tokens(chat.prompt_ids(say(("user", "<<a>><<a>> .")), False)))


@given(st.text(st.characters(codec="utf-8", exclude_characters="<[")))
@settings(max_examples=50, deadline=None)
def test_text_that_spells_no_token_is_left_as_it_is(text):
    assert chat_of("chatml").plain(text) == text


def test_half_of_a_surrogate_pair_is_replaced():
    assert chat_of("chatml").plain("a\ud800b") == "a?b"


# --- refused


@pytest.mark.parametrize("name", REFUSED)
def test_template_that_does_not_keep_what_it_wrote_is_refused(name):
    template, why = REFUSED[name]
    with pytest.raises(ConfigError, match=why) as refused:
        TemplateChat(make_tokenizer(template))
    assert "\n" not in str(refused.value) and "chat_template.jinja" in str(refused.value)


def test_tokenizer_without_a_template_is_refused():
    with pytest.raises(ConfigError, match="no chat template"):
        TemplateChat(make_tokenizer(None))


def test_end_token_that_the_tokenizer_does_not_know_is_refused():
    with pytest.raises(ConfigError, match="no token of its own"):
        TemplateChat(make_tokenizer(CHATML.replace("<|im_end|>", "<|unheard_of|>").replace("<|im_start|>", "")))


def test_what_a_template_says_when_it_refuses_is_one_line():
    with pytest.raises(ConfigError) as refused:
        TemplateChat(make_tokenizer("{{ raise_exception('first\nsecond') }}"))
    assert "first second" in str(refused.value)


# --- the real one


@pytest.mark.skipif(not (smollm2.cache() / smollm2.NAME).is_dir(), reason="python -m rlmlib.models.smollm2 makes the folder")
def test_smollm2_grows_as_the_whole_is():
    from transformers import AutoTokenizer

    chat = TemplateChat(AutoTokenizer.from_pretrained(smollm2.folder()))
    assert (chat.end, chat.end_id) == ("<|im_end|>", 2)
    later = [("```repl\nprint(len(context))\n```", "Output:\n 12345\n    7 <|im_end|> <repo_name>"), ("FINAL(12345)", "No turns are left.")]
    turns = FIRST + [turn for reply, text in later for turn in (("assistant", reply), ("user", text))]
    assert grown(chat, FIRST, later) == whole(chat, turns)
