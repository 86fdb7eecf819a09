"""Every knob of a run, typed, in one place. The descriptions are the manual.

A params file is YAML. It may leave out what it does not change. How it is read, and what is refused: params_file.py.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from . import params_file
from .params_file import PositiveFloat, PositiveInt, Section, Seed, Share


class Lora(Section):
    """Low-rank adapter on the policy (PEFT)."""

    rank: PositiveInt = Field(16, description="rank of the adapter")
    alpha: PositiveInt = Field(32, description="scale numerator; the update is scaled by alpha / rank")
    dropout: Share = Field(0.0, description="adapter dropout; the study uses 0")
    targets: list[str] = Field(
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        description="names of the linear layers that get an adapter",
    )


class Vllm(Section):
    """vLLM: the engine in this process (policy.sampler: vllm), or servers (policy.sampler: server)."""

    gpu_memory: Share = Field(0.45, description="share of the GPU's memory that the engine in this process takes, its weights included")
    max_running: PositiveInt = Field(64, description="replies that are generated at once")
    eager: bool = Field(False, description="no CUDA graphs: starts sooner, generates slower")
    urls: list[str] = Field([], description="addresses of the servers, mostly ending in /v1; conversations are spread over them")
    exchange: str = Field("", description="folder that trainer and servers both see, for the weights of each version; empty: in the run")


class Policy(Section):
    """The root model: which weights, who trains them, who samples from them."""

    model: str = Field("tiny", description="'tiny' (shipped), 'smollm2' (a registry package), or a transformers model name or folder")
    tuning: Literal["lora", "full"] = Field("lora", description="train an adapter, or all weights")
    trainer: Literal["peft", "unsloth"] = Field("peft", description="engine of the gradient step")
    sampler: Literal["torch", "vllm", "server"] = Field("torch", description="engine that generates rollouts")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of the weights; auto: bfloat16 for a frozen base on a GPU, else float32"
    )
    load_in_4bit: bool = Field(False, description="base weights in 4 bit (nf4); LoRA only")
    gradient_checkpointing: bool = Field(False, description="recompute activations in the backward pass: less memory, a third slower")
    logits_at_once: PositiveInt = Field(1024, description="positions whose logits exist at the same time")
    threads: PositiveInt = Field(
        2, description="CPU threads of torch, shared where sampling runs beside training; more than free cores is far slower"
    )
    lora: Lora = Lora()
    vllm: Vllm = Vllm()

    @model_validator(mode="after")
    def _check_engines(self):
        if self.load_in_4bit and self.tuning == "full":
            raise ValueError("load_in_4bit needs tuning: lora")
        if self.sampler == "server" and not self.vllm.urls:
            raise ValueError("sampler: server needs vllm.urls, such as [http://127.0.0.1:8000/v1]")
        return self


class Sampling(Section):
    """How the policy is sampled, in training and in evaluation alike."""

    temperature: PositiveFloat = Field(0.7, description="logits are divided by it; log-probs are taken after that")
    max_turn_tokens: PositiveInt = Field(128, description="tokens of one reply")
    max_sequence_tokens: PositiveInt = Field(1024, description="prompt and replies of one conversation")


class Harness(Section):
    """Limits of one rollout."""

    prompts: Literal["compact", "full"] = Field("compact", description="wording of the messages; compact suits tiny")
    depth: Annotated[int, Field(ge=1, le=4)] = Field(
        1, description="1: leaf calls only; 2: rlm_query starts child RLMs, whose own falls back; ..."
    )
    max_turns: PositiveInt = Field(6, description="turns before the forced-finalise message")
    max_subcalls: Annotated[int, Field(ge=0)] = Field(50, description="leaf calls of a rollout, shared by all its turns")
    max_batch: PositiveInt = Field(50, description="prompts of one llm_query_batched call")
    output_chars: Annotated[int, Field(ge=1, le=100_000)] = Field(160, description="characters of a block's output that the model is shown")
    concurrent_children: PositiveInt = Field(4, description="children of one RLM that run at once, each in a REPL of its own")
    max_delegated_tokens: PositiveInt | None = Field(None, description="tokens of all leaf calls of a rollout tree; null: no limit")
    max_total_tokens: PositiveInt | None = Field(None, description="tokens of all model calls of a rollout tree; null: no limit")
    max_dollars: PositiveFloat | None = Field(None, description="dollars of a rollout tree, where prices are known; null: no limit")
    wall_clock_s: PositiveFloat | None = Field(
        None, description="seconds of a rollout tree, waiting for the policy included; null: no limit"
    )
    block_timeout_s: PositiveFloat = Field(10.0, description="seconds of one code block, waiting for leaves not counted")
    leaf_timeout_s: PositiveFloat = Field(300.0, description="seconds that one block may wait for its leaf calls in all")
    rollout_timeout_s: PositiveFloat = Field(400.0, description="seconds of REPL and leaf work of a whole rollout")
    final_beside_code: Literal["accept", "ignore"] = Field(
        "accept", description="a FINAL in the same reply as code: taken after the code ran, or ignored"
    )
    final: Literal["call", "answer_dict"] = Field("call", description="how a rollout answers: FINAL(...), or the dict `answer` as in rlms")
    deadline_s: PositiveFloat = Field(
        1800.0, description="wall clock of one attempt at a rollout; then its worker is killed and it is tried again"
    )
    attempts: PositiveInt = Field(3, description="attempts at a rollout whose machinery fails")
    memory_mb: PositiveInt = Field(1024, description="address space of a REPL process")
    isolation: Literal["strict", "process"] = Field(
        "strict", description="strict: confined by seccomp and Landlock, or refused; process: model code runs with your rights"
    )
    sandbox_command: list[str] = Field([], description="command to run the REPL server under, such as a bwrap line")


class ApiModel(Section):
    """A model behind an API. Keys are read from the environment and never from here."""

    engine: Literal["gemini", "openai"] = Field(description="gemini: google-genai; openai: any OpenAI-compatible server (vLLM, llama.cpp)")
    model: str = Field(description="the model's name at the service")
    base_url: str | None = Field(None, description="address of an OpenAI-compatible server, mostly ending in /v1")
    free: bool = Field(False, description="its calls cost nothing, as on a server of your own")
    vertex_project: str | None = Field(None, description="Google Cloud project: Vertex AI instead of an API key")
    vertex_location: str | None = Field(None, description="Google Cloud region for Vertex AI")
    thinking: Literal["none", "low", "medium", "high"] = Field("none", description="thinking level, where the model has one")
    temperature: Annotated[float, Field(ge=0)] = Field(0.0, description="sampling temperature")
    max_tokens: PositiveInt = Field(2048, description="tokens of one reply, thinking included")
    window_tokens: PositiveInt = Field(1_000_000, description="tokens of prompt and reply")
    concurrency: PositiveInt = Field(8, description="calls in flight at once")


class Leaf(ApiModel):
    """The model behind llm_query."""

    engine: Literal["lexical", "policy", "gemini", "openai"] = Field(
        "lexical", description="'lexical' is an offline stand-in, not a language model; 'policy': the policy answers its own subcalls"
    )
    model: str = Field("lexical-stand-in", description="model name for engines that have several")
    max_tokens: PositiveInt = Field(64, description="tokens of one leaf reply")
    window_tokens: PositiveInt = Field(2400, description="leaf window; a prompt over 0.85 of it is refused with an error text")


class Judge(ApiModel):
    """Who says whether an answer that is no exact match means the same. Aggregation never needs it."""

    engine: Literal["none", "gemini", "openai"] = Field("none", description="none: an exact match, in equivalent forms, decides")
    model: str = Field("none", description="the model's name at the service")
    waiting: PositiveInt = Field(64, description="questions in line before rollouts are held back")
    families: list[str] = Field(["research", "coding"], description="families whose answers are judged")


class Mixture(Section):
    """Shares of the families; the study's are the defaults."""

    aggregation: Share = Field(0.35, description="share of aggregation questions")
    research: Share = Field(0.40, description="share of research questions")
    coding: Share = Field(0.25, description="share of coding questions")

    @model_validator(mode="after")
    def _check_shares(self):
        total = self.aggregation + self.research + self.coding
        if abs(total - 1) > 1e-6:
            raise ValueError(f"aggregation + research + coding must be 1, not {total:g}")
        return self


class Tasks(Mixture):
    """The training mixture and the lengths of its contexts. With a `dataset` the mixture is that data set's."""

    dataset: str = Field("", description="folder that make dataset wrote; empty: the offline families")
    hidden_labels: Share = Field(0.5, description="share of aggregation questions whose records do not show their label")
    two_hop: Share = Field(0.3, description="share of research questions that need two pages")
    min_chars: PositiveInt = Field(5_000, description="shortest context, characters")
    max_chars: PositiveInt = Field(200_000, description="longest context, characters; lengths are log-uniform")
    pool: PositiveInt = Field(512, description="distinct training questions")

    @model_validator(mode="after")
    def _check_lengths(self):
        if self.min_chars > self.max_chars:
            raise ValueError(f"min_chars {self.min_chars} is over max_chars {self.max_chars}")
        return self


class Reward(Section):
    """The study's reward; see rlmlib.scoring.reward for the formulas."""

    scope: Literal["all_rollouts", "correct_only"] = Field("all_rollouts", description="who pays for cost")
    beta_max: Annotated[float, Field(ge=0)] = Field(0.15, description="largest cost penalty; 0 trains without cost pressure")
    gamma: PositiveFloat = Field(1.0, description="curvature of beta over the group solve rate")
    p0: Annotated[float, Field(ge=0, lt=1)] = Field(0.25, description="solve rate up to which cost is free")
    forced_penalty: Share = Field(0.25, description="taken from a right answer that came only after forced finalise")
    cost_basis: Literal["total", "leaf"] = Field("total", description="tokens that count as cost: all model calls, or leaves only")
    child_bonus: Share = Field(0.0, description="added to a right answer whose rollout started a child: an incentive for depth 2")


class Watch(Section):
    """When a run is stopped as diverged. Each is a mean over `window` steps; null: not watched."""

    window: PositiveInt = Field(5, description="steps of a mean; watching begins after two of them")
    reply_growth: PositiveFloat | None = Field(4.0, description="reply tokens a rollout, over those of the first steps")
    min_entropy: PositiveFloat | None = Field(1e-3, description="entropy of the policy, nats a token")
    missing: Share | None = Field(0.95, description="share of rollouts without an answer")
    mismatch: PositiveFloat | None = Field(0.5, description="KL of trainer and sampler on kept tokens, nats a token")


class Training(Section):
    """One GRPO run."""

    steps: PositiveInt = Field(60, description="optimiser steps")
    prompts_per_step: PositiveInt = Field(16, description="accepted groups of a step")
    rollouts_per_prompt: Annotated[int, Field(ge=2)] = Field(4, description="rollouts of a group")
    lr: PositiveFloat = Field(1e-3, description="AdamW learning rate, after warm-up")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="steps over which lr rises linearly")
    schedule: Literal["constant", "linear", "cosine"] = Field("constant", description="lr after warm-up; linear and cosine fall to 0")
    beta1: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="AdamW beta 1")
    beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.999, description="AdamW beta 2")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="AdamW weight decay")
    grad_clip: PositiveFloat = Field(1.0, description="gradient norm is clipped to it")
    drop_threshold: PositiveFloat = Field(0.2, description="a token whose probability moved by more is dropped from the policy term")
    kl_tau: Annotated[float, Field(ge=0)] = Field(1e-3, description="weight of the squared log-ratio")
    keep_all_right: bool = Field(False, description="train on all-right groups (their only signal is cost); the write-up drops them")
    sideline_steps: Annotated[int, Field(ge=0)] = Field(5, description="steps that an all-wrong prompt is set aside")
    max_waves: PositiveInt = Field(20, description="sampling waves of a step before it ends for lack of signal; not async")
    max_wave_prompts: PositiveInt = Field(40, description="groups sampled at once at most")
    micro_batch_tokens: PositiveInt = Field(8192, description="padded tokens of one forward and backward pass")
    child_weight: Literal["one", "share"] = Field("one", description="weight of a child's tokens: 1, or 1 / children of the rollout")
    trained_subcalls: Annotated[int, Field(ge=0)] = Field(
        0, description="subcalls of a rollout that are trained, where the policy answers them (leaf.engine: policy)"
    )
    max_async_level: Annotated[int, Field(ge=0)] = Field(0, description="steps that sampling may be ahead of training; 0: they take turns")
    max_off_policy_steps: PositiveInt = Field(
        4, description="a group is dropped after so many updates since it was begun, waiting included; async only"
    )
    evaluate_every: Annotated[int, Field(ge=0)] = Field(0, description="steps between short evaluations; 0: none")
    evaluate_examples: PositiveInt = Field(64, description="held-out questions of a short evaluation, one rollout each")
    checkpoint_every: PositiveInt = Field(1, description="steps between checkpoints")
    keep_last: PositiveInt = Field(2, description="checkpoints kept; the one that answers best is kept too")
    keep_every: Annotated[int, Field(ge=0)] = Field(0, description="steps between checkpoints that are never deleted; 0: none")
    parallel: Literal["replicated", "sharded"] = Field(
        "replicated", description="under torchrun: each rank holds the whole model, or its share of it (FSDP)"
    )
    watch: Watch = Watch()


class Tracking(Section):
    """Where metrics go besides metrics.jsonl, which is always written."""

    to: list[Literal["trackio", "wandb", "tensorboard"]] = Field([], description="trackers, each of which must be installed")
    project: str = Field("rlm", description="project of trackio and W&B")


class Limits(Section):
    """What a training run may cost by its estimate; over it, it is refused before it starts. null: no limit."""

    dollars: PositiveFloat | None = Field(None, description="of leaf and judge calls")
    hours: PositiveFloat | None = Field(None, description="of wall clock")


class Evaluation(Section):
    """What a checkpoint is measured on. Held-out: names and templates never seen in training."""

    heldout_examples: PositiveInt = Field(120, description="questions with unseen names and unseen templates: the headline")
    seen_examples: Annotated[int, Field(ge=0)] = Field(60, description="new questions from the training names and templates")
    rollouts_per_example: PositiveInt = Field(4, description="n of the unbiased pass@k")
    greedy: bool = Field(False, description="one more rollout of each question, of the likeliest tokens; reported apart")
    seed: Seed | None = Field(None, description="of questions and sampling, so that runs of several seeds are asked the same; null: seed")
    hidden_labels: Share | None = Field(None, description="share of aggregation questions without labels; null: tasks.hidden_labels")
    batch: PositiveInt = Field(64, description="rollouts at once")
    bootstrap: PositiveInt = Field(10_000, description="resamples of the examples for the 95 % intervals")


class Params(Section):
    """A whole params file."""

    name: str = Field(description="name of the preset")
    seed: Seed = Field(42, description="seed of everything random")
    policy: Policy = Policy()
    sampling: Sampling = Sampling()
    harness: Harness = Harness()
    leaf: Leaf = Leaf()
    judge: Judge = Judge()
    tasks: Tasks = Tasks()
    reward: Reward = Reward()
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    tracking: Tracking = Tracking()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _check(self):
        if self.sampling.max_turn_tokens >= self.sampling.max_sequence_tokens:
            raise ValueError("sampling.max_turn_tokens must be under sampling.max_sequence_tokens")
        if self.tasks.dataset and self.evaluation.seen_examples:
            raise ValueError("evaluation.seen_examples must be 0 with tasks.dataset, which has no questions of that kind")
        if self.training.parallel == "sharded" and (self.policy.load_in_4bit or self.policy.trainer == "unsloth"):
            raise ValueError("training.parallel: sharded needs policy.trainer: peft and no load_in_4bit")
        if self.training.parallel == "sharded" and self.policy.sampler == "torch":
            raise ValueError("training.parallel: sharded needs policy.sampler: vllm or server, as torch would sample on the CPU")
        if self.training.trained_subcalls and self.leaf.engine != "policy":
            raise ValueError("training.trained_subcalls needs leaf.engine: policy, as no other leaf is trained")
        if self.training.max_off_policy_steps <= self.training.max_async_level:
            raise ValueError("training.max_off_policy_steps must be over training.max_async_level, or what waits in line is dropped")
        return self


def validate(values: dict, source: str = "params") -> Params:
    """Params from a nested dict. Raises ConfigError that names each bad key."""
    return params_file.validate(values, Params, source)


def load(path: str | Path, overrides: dict | None = None) -> Params:
    """Read a params file; `overrides` maps dotted keys to values, e.g. {"training.lr": 1e-4}."""
    return params_file.load(path, Params, overrides)
