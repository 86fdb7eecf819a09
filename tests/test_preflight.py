"""Before a run: what is estimated, what is measured already, and what is refused with the knob's name."""

import json
import socket
import sys
from types import SimpleNamespace

import pytest

from rlmlib import config
from rlmlib.errors import ConfigError
from rlmlib.models import prices
from rlmlib.notebook import ROOT
from rlmlib.runs import open_run, write_json
from rlmlib.training import preflight as module
from rlmlib.training.preflight import check, preflight

QWEN = "Qwen/Qwen3-4B-Instruct-2507"
PAID = {"engine": "gemini", "model": "gemini-3.1-flash-lite", "max_tokens": 2000, "window_tokens": 20_000}


@pytest.fixture(autouse=True)
def a_key(monkeypatch):
    """What a leaf or judge behind an API needs, so that preflight lets it through; nothing is asked of them."""
    for name in ("GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "test-key")


def params(**sections) -> config.Params:
    return config.validate({"name": "x", **sections})


def refusal(wanted: config.Params, device: str | None = None, **options) -> str:
    with pytest.raises(ConfigError) as caught:
        check(preflight(wanted, device=device, **options), wanted)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def qwen(policy=(), **sections) -> config.Params:
    asked = {"sampling": {"max_sequence_tokens": 16_384}, "training": {"micro_batch_tokens": 16_384}, **sections}
    return params(policy={"model": QWEN, "sampler": "vllm", "gradient_checkpointing": True, **dict(policy)}, **asked)


@pytest.mark.parametrize("preset", ["smoke", "tiny", "smollm2"])
def test_what_runs_here_is_let_through(preset, tmp_path):
    wanted = config.load(ROOT / f"params/{preset}.yaml")
    check(preflight(wanted, open_run(tmp_path / "run", wanted)), wanted)


@pytest.mark.parametrize(("preset", "device", "ranks"), [("qwen3-4b", "80GB", 1), ("qwen3-4b-node", "80GB", 4)])
def test_gpu_presets_fit_the_gpus_that_they_name(preset, device, ranks):
    wanted = config.load(ROOT / f"params/{preset}.yaml")
    check(preflight(wanted, device=device, ranks=ranks), wanted)


def test_too_little_memory_names_a_knob_that_helps():
    assert "set policy.gradient_checkpointing: true" in refusal(qwen({"gradient_checkpointing": False}), "24GB")
    full = qwen({"tuning": "full", "sampler": "server", "vllm": {"urls": ["http://h/v1"]}})
    assert "set policy.tuning: lora, or training.parallel: sharded on more GPUs" in refusal(full, "40GB")
    assert "lower policy.vllm.gpu_memory (now 0.8)" in refusal(qwen({"vllm": {"gpu_memory": 0.8}}), "40GB")
    assert "set policy.load_in_4bit: true" in refusal(qwen({"sampler": "server", "vllm": {"urls": ["http://h/v1"]}}), "8GB")


def test_a_micro_batch_is_lowered_no_further_than_to_its_longest_sequence():
    def wanted(tokens):
        return qwen({"sampler": "server", "vllm": {"urls": ["http://h/v1"]}}, training={"micro_batch_tokens": tokens})

    assert "lower training.micro_batch_tokens (now 131072; the longest sequence has 16384)" in refusal(wanted(131_072), "24GB")
    assert "memory" not in refusal(
        params(**{**wanted(16_384).model_dump(), "limits": {"hours": None, "dollars": 1.0}, "leaf": PAID}), "24GB"
    )


def test_a_share_of_the_gpu_that_holds_no_conversation_is_refused():
    assert "policy.vllm.gpu_memory: 0.1 leaves no room for one conversation of 16384 tokens" in refusal(
        qwen({"vllm": {"gpu_memory": 0.1}}), "80GB"
    )


def test_a_sequence_longer_than_the_model_is_refused():
    assert "4096 is over the model's 1024 positions" in refusal(params(sampling={"max_sequence_tokens": 4096}))


def test_a_limit_of_dollars():
    dear = params(leaf=PAID, limits={"dollars": 5.0})
    assert "limits.dollars: about" in refusal(dear)
    check(preflight(params(leaf=PAID)), params(leaf=PAID))
    unknown = params(leaf=PAID | {"model": "nobody-knows"}, limits={"dollars": 5.0})
    assert "the price of 'nobody-knows' is not known" in refusal(unknown)
    free = params(leaf=PAID | {"model": "nobody-knows", "free": True}, limits={"dollars": 5.0})
    check(preflight(free), free)
    assert "not known" in str(preflight(unknown))


def test_dollars_are_tokens_times_the_dated_price():
    work = preflight(params(leaf=PAID)).work
    replies = work.leaf_calls * 500  # a quarter of max_tokens
    assert work.dollars == pytest.approx(prices.dollars(PAID["model"], work.leaf_tokens - replies, replies))
    judged = params(leaf=PAID, judge={"engine": "gemini", "model": "gemini-3-flash-preview"})
    work = preflight(judged).work
    assert work.judge_calls == pytest.approx(0.65 * work.rollouts * work.steps)
    assert work.judge_dollars == pytest.approx(prices.dollars("gemini-3-flash-preview", 700 * work.judge_calls, 200 * work.judge_calls))


def test_what_the_run_measured_replaces_assumptions(tmp_path):
    wanted = params(leaf=PAID, training={"steps": 20})
    run = open_run(tmp_path / "run", wanted)
    assert preflight(wanted, run).rates.source == "assumptions"

    write_json(run / "eval/base/summary.json", {"heldout": {"leaf_tokens_mean": [500.0, 400.0, 600.0], "leaf_calls": [2.0, 1.0, 3.0]}})
    known = preflight(wanted, run)
    assert (known.rates.leaf_tokens, known.rates.leaf_calls) == (500.0, 2.0)

    row = {"leaf_tokens_mean": 50.0, "leaf_calls": 1.0, "acceptance": 0.8, "sample_seconds": 30.0, "train_seconds": 6.0, "dollars": 0.01}
    (run / "metrics.jsonl").write_text("".join(json.dumps({"step": step, **row}) + "\n" for step in range(3)))
    (run / "checkpoints/step_3").mkdir(parents=True)
    work = preflight(wanted, run).work
    assert (work.steps, work.rollouts) == (17, pytest.approx(16 / 0.8 * 4))
    assert work.hours == pytest.approx(17 * 36 / 3600)
    assert work.leaf_tokens == pytest.approx(50 * 80 * 17)
    assert work.dollars == pytest.approx(0.01 * 80 * 17)
    limited = params(**{**wanted.model_dump(), "limits": {"hours": 0.1, "dollars": None}})
    assert "limits.hours: about 0.2 hours are expected, over 0.1" in refusal(limited, run=run)


def test_hours_that_nobody_measured_are_not_known():
    report = preflight(qwen(limits={"hours": 1.0}), device="80GB")
    assert report.work.hours is None
    assert "not known" in str(report)
    check(report, qwen(limits={"hours": 1.0}))


def test_a_full_disk_is_refused(monkeypatch, tmp_path):
    wanted = params(tasks={"min_chars": 1_000_000, "max_chars": 1_000_000})
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    message = refusal(wanted, run=open_run(tmp_path / "run", wanted))
    assert "disk: about" in message
    assert "tasks.pool or tasks.max_chars" in message


def test_what_is_not_installed_is_refused_where_the_run_would_be(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert "vllm is not installed" in refusal(params(policy={"sampler": "vllm"}))
    assert "unsloth is not installed" in refusal(params(policy={"trainer": "unsloth"}))
    elsewhere = params(policy={"trainer": "unsloth"})
    check(preflight(elsewhere, device="80GB"), elsewhere)


def test_4_bit_without_a_gpu_is_refused():
    assert "policy.load_in_4bit: needs an NVIDIA GPU" in refusal(params(policy={"load_in_4bit": True}))


def test_servers_that_do_not_answer_are_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        up = params(policy={"sampler": "server", "vllm": {"urls": [url]}})
        check(preflight(up), up)
    assert f"policy.vllm.urls: {url[7:-3]} does not answer" in refusal(up)


@pytest.mark.parametrize(
    "address",
    ["http://me:hunter2@127.0.0.1", "http://me:hunter2@127.0.0.1:9/v1", "http://me:hunter2/v1", "http://me:hunter2@[::1/v1"],
)
def test_an_address_with_a_user_and_password_is_refused_without_them(address):
    message = refusal(params(policy={"sampler": "server", "vllm": {"urls": [address]}}))
    assert "policy.vllm.urls" in message
    assert "hunter2" not in message and "me:" not in message


def test_keys_and_addresses_that_are_missing_are_named(monkeypatch):
    monkeypatch.delenv("GEMINI_API_KEY")
    wanted = params(leaf=PAID, judge={"engine": "openai", "model": "a-judge"})
    message = refusal(wanted)
    assert "leaf: no Gemini API key: set GEMINI_API_KEY" in message
    assert "judge: base_url: an engine 'openai' needs one" in message
    check(preflight(wanted, device="80GB"), wanted)


def test_a_tracker_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "tracking.to: wandb cannot be imported" in refusal(params(tracking={"to": ["wandb"]}))


def test_a_mistyped_lora_target_is_named():
    wrong = params(policy={"lora": {"targets": ["q_proj", "k_porj"]}})
    assert "policy.lora.targets: no linear layer is named 'k_porj'; did you mean 'k_proj'?" in refusal(wrong)
    full = params(policy={"tuning": "full", "lora": {"targets": ["k_porj"]}})
    check(preflight(full), full)


@pytest.mark.parametrize(("policy", "width"), [({}, 4), ({"tuning": "full"}, 4), ({"tuning": "full", "dtype": "bfloat16"}, 2)])
def test_weights_for_the_sampler_are_as_wide_on_the_disk_as_they_are_trained(policy, width):
    report = preflight(qwen(policy), device="80GB")
    model = report.model
    trained = model.parameters if policy else model.adapter_parameters([linear.name for linear in model.linears], 16)
    assert report.disk["weights for the sampler"] == 2 * trained * width


def test_all_that_is_wrong_is_told_at_once():
    message = refusal(params(policy={"load_in_4bit": True}, sampling={"max_sequence_tokens": 4096}))
    assert "positions" in message
    assert "load_in_4bit" in message


@pytest.mark.parametrize("text", ["80", "GB", "tpu:80GB", "80GB!"])
def test_a_device_that_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="is no size"):
        module.named_device(text)


def test_the_command_prints_the_table_and_ends_with_2_where_the_run_cannot_fit(capsys):
    file = str(ROOT / "params/qwen3-4b.yaml")
    assert module.main(["--params", file, "--device", "80GB"]) == 0
    assert "leaf tokens in all" in capsys.readouterr().out
    assert module.main(["--params", file, "--device", "16GB"]) == 2
    assert capsys.readouterr().err.startswith("error: memory: about")
