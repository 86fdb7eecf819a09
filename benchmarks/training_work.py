"""One measurement of training.py in a process of its own: `python training_work.py WORK REQUEST`, REQUEST in JSON.

The last line of its output is the result in JSON. Ours and the other's do the same work on the same batch file: a list of
{"ids", "mask", "logprobs", "advantage"}, one a conversation, the rollouts of a prompt behind each other.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rlmlib import config  # noqa: E402

PARAMS = ROOT / "params/tiny.yaml"
KB_OF_MB = 1024
SMALL_VOCAB = 32_000
SEED = 11


def serve(work: dict):
    """Do the work that this process was started for; see processes.answer_of."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    print("\n" + json.dumps(work[sys.argv[1]](json.loads(sys.argv[2]))))


def memory_mb(field: str) -> float:
    """VmHWM, the most memory this process has held, or VmRSS, what it holds, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / KB_OF_MB


class Stopwatch:
    """Seconds of wall clock and of all threads' CPU since it was made: the latter hardly depend on who else uses the machine.

    A GPU is waited for at both ends.
    """

    def __init__(self):
        self._wait_for_gpu()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @staticmethod
    def _wait_for_gpu():
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def read(self) -> tuple[float, float]:
        self._wait_for_gpu()
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def params_of(request: dict) -> config.Params:
    """The preset, with what request["params"] changes of it."""
    import torch

    torch.set_num_threads(request["threads"])
    return config.load(PARAMS, {"policy.threads": request["threads"], **request.get("params", {})})


def model_of(name: str):
    """(model, chat): the shipped policy, or a random Qwen3 of 25 million parameters, half of them in its vocabulary of 32,000."""
    from rlmlib.tiny.model import load

    model, chat = load()
    if name == "tiny":
        return model, chat
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(SEED)
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64}
    changed = {"vocab_size": SMALL_VOCAB, "intermediate_size": 1152, "layer_types": None, **shape}
    return Qwen3ForCausalLM(Qwen3Config(**{**model.config.to_dict(), **changed})).float(), chat


def lora_of(params: config.Params):
    from peft import LoraConfig

    lora = params.policy.lora
    return LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=list(lora.targets), task_type="CAUSAL_LM"
    )


def batch_of(request: dict) -> list[dict]:
    """The rows of the batch file; for a random model, of the same lengths and masks with ids all over its vocabulary."""
    rows = json.loads(Path(request["batch"]).read_text())[: request["rows"]]
    if request["model"] != "tiny":
        for row in rows:
            row["ids"] = [id * 7919 % SMALL_VOCAB for id in row["ids"]]
    return rows


# --- a batch of real rollouts


def rollouts(request: dict) -> dict:
    """Write 64 conversations of the shipped policy with its tasks to request["batch"]: 16 prompts, 4 rollouts each."""
    from rlmlib.engine import Engine, Job
    from rlmlib.tasks.mixture import example
    from rlmlib.training.trainers import load_policy

    params = params_of(request)
    each = params.training.rollouts_per_prompt
    prompts = [example(params.tasks, "train", number, params.seed) for number in range(params.training.prompts_per_step)]
    with Engine(params, load_policy(params, adapter=False)) as engine:
        attempts = engine.run([Job(prompt, index, (SEED, place, index)) for place, prompt in enumerate(prompts) for index in range(each)])
    rows = []
    for start in range(0, len(attempts), each):
        group = attempts[start : start + each]
        mean = sum(a.correct for a in group) / each
        for attempt in group:
            sequence = attempt.rollout.sequence
            rows.append(
                {"ids": sequence.ids, "mask": sequence.mask, "logprobs": sequence.logprobs, "advantage": float(attempt.correct) - mean}
            )
    Path(request["batch"]).write_text(json.dumps(rows))
    lengths = sorted(len(row["ids"]) for row in rows)
    return {
        "conversations": len(rows),
        "tokens": sum(lengths),
        "trained_tokens": sum(sum(row["mask"]) for row in rows),
        "shortest": lengths[0],
        "median": lengths[len(lengths) // 2],
        "longest": lengths[-1],
    }


# --- the gradient step


def step_ours(request: dict) -> dict:
    """Wall and CPU seconds of `update` on the batch, as the loop calls it."""
    from peft import get_peft_model

    from rlmlib.models.conversation import TokenSequence
    from rlmlib.training.policy import Policy
    from rlmlib.training.step import TrainItem, make_optimizer, update

    params = params_of(request)
    model, chat = model_of(request["model"])
    policy = Policy(get_peft_model(model, lora_of(params)), chat)
    optimizer = make_optimizer(policy, params.training)
    items = [TrainItem(TokenSequence(r["ids"], r["mask"], r["logprobs"]), r["advantage"]) for r in batch_of(request)]
    before, times = memory_mb("VmRSS"), []
    for _ in range(1 + request["repeats"]):  # the first one warms up
        watch = Stopwatch()
        update(policy, optimizer, items, params.training, params.sampling.temperature)
        times.append(watch.read())
    return {"times": times[1:], "peak_mb": memory_mb("VmHWM"), "before_mb": before}


def step_trl(request: dict) -> dict:
    """Wall and CPU seconds of an optimiser step of TRL's GRPOTrainer on the batch, without the making of the batch.

    Sampling is replaced by a rollout_func that hands out the batch; its env_mask tells replies from prompts. Gradient checkpointing,
    on by default, is off, as is bfloat16: both are slower here.
    """
    import torch
    from transformers import PreTrainedTokenizerFast

    params = params_of(request)
    torch.manual_seed(SEED)
    rows = batch_of(request)

    def times_of(size: int):
        model, chat = model_of(request["model"])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=chat.tokenizer, pad_token="<|pad|>", eos_token="<|end|>")
        options = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
        return trl_times(model, tokenizer, params, rows, size, request["repeats"], **options)

    if "sizes" in request:  # which one is quickest: CPU seconds, which a busy machine does not change much
        return {"by_size": {size: min(cpu for _, cpu in times_of(size)[0]) for size in request["sizes"]}}
    times, before = times_of(request["size"])
    return {"times": times, "peak_mb": memory_mb("VmHWM"), "before_mb": before}


def trl_times(
    model, tokenizer, params: config.Params, rows: list[dict], size: int, repeats: int, **options
) -> tuple[list[tuple[float, float]], float]:
    """Wall and CPU seconds of the steps at `size` rows a forward pass, and the memory held before them, MB.

    options: of GRPOConfig: the device, dtype and checkpointing.
    """
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    each, starts = params.training.rollouts_per_prompt, [row["mask"].index(1) for row in rows]

    def hand_out(prompts, trainer):
        return {
            "prompt_ids": [row["ids"][:start] for row, start in zip(rows, starts, strict=True)],
            "completion_ids": [row["ids"][start:] for row, start in zip(rows, starts, strict=True)],
            "env_mask": [row["mask"][start:] for row, start in zip(rows, starts, strict=True)],
            "logprobs": [row["logprobs"][start:] for row, start in zip(rows, starts, strict=True)],
        }

    class Trainer(GRPOTrainer):
        making = (0.0, 0.0)  # seconds that the step spent on making its batch

        def _generate_and_score_completions(self, inputs):
            watch = Stopwatch()
            made = super()._generate_and_score_completions(inputs)
            self.making = watch.read()
            return made

    class Clock(TrainerCallback):
        watch = None

        def on_step_begin(self, *_, **__):
            self.watch, trainer.making = Stopwatch(), (0.0, 0.0)

        def on_step_end(self, *_, **__):
            times.append(tuple(all - making for all, making in zip(self.watch.read(), trainer.making, strict=True)))

    times = []
    training = params.training
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=len(rows) // size,
            num_generations=each,
            max_steps=1 + repeats,
            max_completion_length=params.sampling.max_sequence_tokens,
            temperature=params.sampling.temperature,
            learning_rate=training.lr,
            max_grad_norm=training.grad_clip,
            lr_scheduler_type="constant",
            loss_type="dapo",
            beta=0.0,
            logging_steps=1000,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            seed=SEED,
            **options,
        )
        trainer = Trainer(
            model=model,
            reward_funcs=lambda completions, **_: [row["advantage"] for row in rows],
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": [str(number) for number in range(len(rows) // each)]}),
            processing_class=tokenizer,
            peft_config=lora_of(params),
            rollout_func=hand_out,
            callbacks=[Clock()],
        )
        before = memory_mb("VmRSS")
        trainer.train()
    return times[1:], before


# --- sampling


def turns_of(rows: list[dict]) -> list[list[list[int]]]:
    """The prompts of each conversation: what was said before each of its replies."""
    found = []
    for row in rows:
        turns, prompt, replying = [], [], False
        for id, on in zip(row["ids"], row["mask"], strict=True):
            if on and not replying:
                turns.append(prompt)
                prompt = []
            if not on:
                prompt = [*prompt, id]
            replying = bool(on)
        found.append(turns)
    return found


def sample_ours(request: dict) -> dict:
    """Seconds a sampled token of the torch sampler, which answers the prompts of all conversations, each turn after the last one."""
    from rlmlib.models.torch_sampler import TorchSampler
    from rlmlib.training.policy import Policy

    params = params_of(request)
    model, chat = model_of(request["model"])
    limits = params.sampling
    sampler = TorchSampler(Policy(model, chat).dense_weights(), chat, limits.temperature, limits.max_sequence_tokens)
    conversations = turns_of(batch_of(request))

    async def talk(session, turns) -> int:
        sampled = 0
        for prompt in turns:
            session.sequence.extend(prompt, 0)
            ids, logprobs = await sampler.generate(session, room(len(session.sequence.ids), limits))
            session.sequence.extend(ids, 1, logprobs)
            sampled += len(ids)
        session.close()
        return sampled

    async def all_of_them(number: int) -> list[int]:
        sessions = [sampler.session(number, place) for place in range(len(conversations))]
        return await asyncio.gather(*(talk(*pair) for pair in zip(sessions, conversations, strict=True)))

    times = []
    for number in range(1 + request["repeats"]):
        watch = Stopwatch()
        tokens = sum(asyncio.run(all_of_them(number)))
        times.append([seconds / tokens for seconds in watch.read()])
    return {"times": times[1:], "peak_mb": memory_mb("VmHWM")}


def sample_hf(request: dict) -> dict:
    """As sample_ours, with `generate` of transformers: a batch runs its whole conversations again each turn, padded on the left.

    It is asked for what training needs too, the log-probs of what it sampled.
    """
    import torch

    params = params_of(request)
    model, chat = model_of(request["model"])
    model.eval()
    limits, conversations = params.sampling, turns_of(batch_of(request))
    torch.manual_seed(SEED)

    def answer(batch: list[list[int]], most: int) -> list[list[int]]:
        width = max(map(len, batch))
        ids = torch.full((len(batch), width), chat.pad_id)
        for row, said in enumerate(batch):
            ids[row, width - len(said) :] = torch.tensor(said)
        options = {"do_sample": True, "temperature": limits.temperature, "top_k": 0, "top_p": 1.0}
        ends = {"eos_token_id": chat.end_id, "pad_token_id": chat.pad_id}
        wanted = {"return_dict_in_generate": True, "output_scores": True}  # scores are logits over the temperature
        given = model.generate(ids, attention_mask=(ids != chat.pad_id).long(), max_new_tokens=most, **options, **ends, **wanted)
        sampled = given.sequences[:, width:]
        logprobs = torch.stack([s.log_softmax(-1).gather(1, t[:, None])[:, 0] for s, t in zip(given.scores, sampled.T, strict=True)], 1)
        out, _ = sampled.tolist(), logprobs.tolist()
        return [row[: row.index(chat.end_id) + 1] if chat.end_id in row else row for row in out]

    def talk(size: int) -> list[float]:
        said, sampled = [[] for _ in conversations], 0
        watch = Stopwatch()
        for turn in range(max(map(len, conversations))):
            open_ones = [row for row, turns in enumerate(conversations) if turn < len(turns)]
            for row in open_ones:
                said[row] = said[row] + conversations[row][turn]
            open_ones.sort(key=lambda row: len(said[row]))
            for start in range(0, len(open_ones), size):
                chosen = open_ones[start : start + size]
                replies = answer([said[row] for row in chosen], min(room(len(said[row]), limits) for row in chosen))
                for row, reply in zip(chosen, replies, strict=True):
                    said[row] = said[row] + reply
                    sampled += len(reply)
        return [seconds / sampled for seconds in watch.read()]

    with torch.inference_mode():
        if "sizes" in request:
            return {"by_size": {size: talk(size)[1] for size in request["sizes"]}}
        times = [talk(request["size"]) for _ in range(1 + request["repeats"])]
    return {"times": times[1:], "peak_mb": memory_mb("VmHWM")}


def room(said: int, limits: config.Sampling) -> int:
    """Tokens that the next reply may have."""
    return max(1, min(limits.max_turn_tokens, limits.max_sequence_tokens - said))


# --- the whole loop


def loop(request: dict) -> dict:
    """Seconds between the ends of training steps, with leaves that take request["leaf_s"] to answer and request["params"] changed."""
    from rlmlib.models import choose
    from rlmlib.models.lexical_leaf import LexicalLeaf
    from rlmlib.runs import open_run
    from rlmlib.training.loop import train

    class SlowLeaf(LexicalLeaf):
        async def complete(self, prompt):
            await asyncio.sleep(request["leaf_s"])
            return await super().complete(prompt)

    params = params_of(request)
    ends, rows = [], []

    def after_step(row):
        ends.append(time.perf_counter())
        rows.append(row)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(choose, "leaf", lambda leaf, *_: SlowLeaf(leaf.window_tokens)),
    ):
        train(params, open_run(Path(folder) / "run", params), after_step=after_step)
    return {
        "seconds": [end - start for start, end in zip(ends, ends[1:], strict=False)],
        "sample_seconds": [row.get("sample_seconds") for row in rows],
        "train_seconds": [row.get("train_seconds") for row in rows],
        "leaf_calls": [row["leaf_calls"] for row in rows],
        "peak_mb": memory_mb("VmHWM"),
    }


WORK = {work.__name__: work for work in (rollouts, step_ours, step_trl, sample_ours, sample_hf, loop)}


if __name__ == "__main__":
    serve(WORK)
