"""Makes the tiny policy from nothing: tokenizer, copying, then behaviour cloning of scripts.

1. Demonstrations: scripted strategies played through the real harness on training tasks.
2. Tokenizer: byte-level BPE on them.
3. Copying: questions, then strange ones too, are copied into code. It is what makes a small
   model write the right name, also one that it has never seen.
4. Cloning: next-token loss on the replies; the copied strings weigh more.
"""

import argparse
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from .. import config
from ..config import Params
from ..harness.prompts import COMPACT
from ..models.base import Message
from ..models.chat import TinyChat
from ..notebook import ROOT
from ..runs import write_json
from ..tasks import names
from . import WEIGHTS
from . import model as tiny_model
from . import tokenizer as tiny_tokenizer
from .demonstrations import play
from .scripts import MIXTURE

COPY_BATCH = 64
PLACE = "\x00"
STRANGE = 0.7  # share of copied questions made unlike any real one, in the second part of copying
RECALL_EVERY = 4  # cloning steps between copying steps, so that copying is not forgotten


@dataclass(frozen=True)
class Recipe:
    """How long and how fast. The shipped weights come from the defaults."""

    demonstrations: int = 4500
    copy_steps: int = 240
    strange_steps: int = 120
    clone_epochs: int = 2
    copy_lr: float = 8e-3
    clone_lr: float = 2.5e-3
    batch_tokens: int = 6144
    copied_weight: float = 3.0
    two_hop: float = 0.35  # share of research questions with two hops: more than RL meets, as they are harder to learn
    seed: int = 1


@dataclass(frozen=True)
class Sample:
    """Token ids [T] and the loss weight of predicting each of them [T] (0: not predicted)."""

    ids: list[int]
    weights: list[float]


def cold_start(params: Params, recipe: Recipe, log: Callable[[str], None] = print):
    """(model, tokenizer), trained from nothing."""
    torch.set_num_threads(params.policy.threads)
    began = time.monotonic()
    tell = lambda text: log(f"[{time.monotonic() - began:5.0f} s] {text}")  # noqa: E731
    tasks = params.tasks.model_copy(update={"two_hop": recipe.two_hop})
    demonstrations = play(params.model_copy(update={"tasks": tasks}), recipe.demonstrations, recipe.seed)
    tell(f"{len(demonstrations)} demonstrations played")
    tokenizer = tiny_tokenizer.train(text for d in demonstrations for conversation in d.conversations for _, text in conversation)
    chat = TinyChat(tokenizer)
    model = tiny_model.build(tokenizer.get_vocab_size(), recipe.seed)
    rng = random.Random(recipe.seed)
    questions = [d.copied for d in demonstrations]
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.copy_lr, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(recipe.copy_steps + recipe.strange_steps):
        strange = 0.0 if step < recipe.copy_steps else STRANGE
        batch = [copy_sample(questions, chat, rng, strange) for _ in range(COPY_BATCH // 2 if strange else COPY_BATCH)]
        _set_lr(optimizer, recipe.copy_lr * min(1, (step + 1) / 20) * (0.5 if strange else 1.0))
        loss = _train_step(model, optimizer, batch, chat.pad_id)
        if step % 40 == 39:
            tell(f"copying {step + 1}/{recipe.copy_steps + recipe.strange_steps} loss {loss:.3f}")
    samples = [clone_sample(chat, conversation, d.copied, recipe) for d in demonstrations for conversation in d.conversations]
    samples = [s for s in samples if len(s.ids) <= params.sampling.max_sequence_tokens]
    tell(f"{sum(len(s.ids) for s in samples)} tokens to clone")
    batches = [b for _ in range(recipe.clone_epochs) for b in _batches(samples, recipe.batch_tokens, rng)]
    for step, batch in enumerate(batches):
        if step % RECALL_EVERY == 0:
            _train_step(model, optimizer, [copy_sample(questions, chat, rng, STRANGE) for _ in range(COPY_BATCH // 2)], chat.pad_id)
        done = step / len(batches)
        _set_lr(optimizer, recipe.clone_lr * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))))
        loss = _train_step(model, optimizer, batch, chat.pad_id)
        if step % 50 == 49 or step + 1 == len(batches):
            tell(f"cloning {step + 1}/{len(batches)} loss {loss:.3f}")
    return model.eval(), tokenizer


def clone_sample(chat: TinyChat, conversation: list[tuple[str, str]], copied: tuple[str, str], recipe: Recipe) -> Sample:
    """A conversation as the sampler would have built it, with a loss on the replies. copied: strings that weigh more."""
    ids, weights, pending = [], [], []
    for role, text in conversation:
        if role != "assistant":
            pending.append(Message(role, text))
            continue
        prompt = chat.prompt_ids(pending)
        reply, reply_weights = weighted_ids(chat, text, copied, recipe.copied_weight)
        ids += [*prompt, *reply, chat.end_id]
        weights += [0.0] * len(prompt) + reply_weights + [1.0]
        pending = []
    return Sample(ids, weights)


def weighted_ids(chat: TinyChat, text: str, copied: tuple[str, ...], inside: float, outside: float = 1.0) -> tuple[list[int], list[float]]:
    """Ids of a reply and their loss weights: `inside` strings copied from the question, and `outside` of them."""
    encoding = chat.tokenizer.encode(text, add_special_tokens=False)
    spans = []
    for wanted in filter(None, copied):
        start = text.find(f'"{wanted}"')
        if start >= 0:
            spans.append((start + 1, start + len(wanted) + 2))  # the closing quote too
    weights = [inside if any(begin < b and a < end for a, b in spans) else outside for begin, end in encoding.offsets]
    return encoding.ids, weights


def copy_sample(questions: list[tuple[str, str]], chat: TinyChat, rng: random.Random, strange: float) -> Sample:
    """A question and its copy as code; a share `strange` is made unlike any real one. questions: (question, key) pairs.

    Only the copied strings are predicted: what follows a question is for the demonstrations to say.
    """
    question, key = rng.choice(questions)
    if rng.random() < strange:
        question, key = _strange(question, key, questions, rng)
    start = COMPACT.start.format(kind="str", chars=rng.randint(5000, 200_000), question=question)
    prompt = chat.prompt_ids([Message("system", COMPACT.system), Message("user", start)])
    text = f'```repl\nq = "{question}"\nk = "{key}"\n'
    reply, weights = weighted_ids(chat, text, (question, key), 1.0, 0.0)
    return Sample(prompt + reply, [0.0] * len(prompt) + weights)


def _strange(question: str, key: str, questions, rng: random.Random) -> tuple[str, str]:
    """Another person; and in a third each the same words, the end of another question, or words of both shuffled.

    What is copied must come from the prompt, not from what usually follows.
    """
    fresh = key if " " not in key else f"{rng.choice(names.GIVEN)} {rng.choice(names.FAMILY)}"
    words = question.replace(key, PLACE).split(" ") if key else question.split(" ")
    other_question, other_key = rng.choice(questions)
    other = (other_question.replace(other_key, fresh) if other_key and fresh else other_question).split(" ")
    kind = rng.randrange(3)
    if kind == 1:
        words = words[: rng.randint(1, len(words))] + other[rng.randint(0, len(other) - 1) :]
    elif kind == 2:
        words += other[:4]
        rng.shuffle(words)
    question = " ".join(words)
    if key and PLACE not in question and fresh not in question:
        question = f"{PLACE} {question}"
    return question.replace(PLACE, fresh), fresh


def _batches(samples: list[Sample], tokens: int, rng: random.Random) -> list[list[Sample]]:
    """Batches of samples of like length, in random order, of at most `tokens` padded tokens."""
    order = sorted(samples, key=lambda s: len(s.ids) + rng.random() * 24)
    batches, current = [], []
    for sample in order:
        if current and (len(current) + 1) * max(len(sample.ids), len(current[-1].ids)) > tokens:
            batches.append(current)
            current = []
        current.append(sample)
    batches.append(current)
    rng.shuffle(batches)
    return batches


def _train_step(model, optimizer, batch: list[Sample], pad_id: int) -> float:
    longest = max(len(s.ids) for s in batch)
    ids = torch.full((len(batch), longest), pad_id)
    weights = torch.zeros(len(batch), longest)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
        weights[row, : len(sample.ids)] = torch.tensor(sample.weights)
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
    targets, weights = ids[:, 1:], weights[:, 1:]
    chosen = weights > 0  # the head runs only where something is predicted
    losses = F.cross_entropy(model.lm_head(hidden[chosen]), targets[chosen], reduction="none")
    loss = (losses * weights[chosen]).sum() / weights.sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def _set_lr(optimizer, lr: float):
    for group in optimizer.param_groups:
        group["lr"] = lr


def main():
    """Rebuild the weights from nothing: python -m rlmlib.tiny.cold_start [--out FOLDER]."""
    parser = argparse.ArgumentParser(prog="python -m rlmlib.tiny.cold_start", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder to write (default: the shipped weights)")
    parser.add_argument("--params", type=Path, default=ROOT / "params/tiny.yaml")
    arguments = parser.parse_args()
    recipe = Recipe()
    model, tokenizer = cold_start(config.load(arguments.params), recipe)
    tiny_model.save(model, tokenizer, arguments.out)
    card = {"recipe": vars(recipe), "mixture": MIXTURE, "parameters": model.num_parameters(), "torch": torch.__version__}
    write_json(arguments.out / "card.json", card)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
