"""Frames of a made-up study that look like those of rlmlib/study/frames.py. Seeded: the same numbers at every call."""

import numpy as np
import pandas as pd

STEPS = 30
FAMILIES = ("aggregation", "coding", "research")
KINDS = ("broad", "selective", "code_only", "blind")
SEEDS = {group: (42, 43, 44) for group in ("lora", "no-penalty", "full", "shown", "hidden", "depth2", "depth2-bonus")}
# group: label, kind, right, pass@10, mean leaf tokens, share of rollouts without a leaf call
PROFILES = {
    "base": ("untrained", "untrained", 0.19, 0.58, 5500, 0.35),
    "plain": ("leaf alone", "plain", 0.31, None, None, 0.0),
    "lora": ("LoRA", "train", 0.56, 0.72, 420, 0.30),
    "no-penalty": ("no penalty", "train", 0.55, 0.70, 1900, 0.12),
    "full": ("full", "train", 0.51, 0.61, 95, 0.72),
    "shown": ("shown", "train", 0.58, 0.71, 300, 0.5),
    "hidden": ("hidden", "train", 0.47, 0.66, 700, 0.2),
    "depth2": ("depth2", "train", 0.55, 0.71, 450, 0.3),
    "depth2-bonus": ("depth2 bonus", "train", 0.50, 0.69, 980, 0.25),
    "rank4-lr5e-05": ("rank4 lr5e-05", "train", 0.18, 0.56, 4700, 0.38),
    "rank16-lr5e-05": ("rank16 lr5e-05", "train", 0.21, 0.59, 4900, 0.36),
    "rank64-lr5e-05": ("rank64 lr5e-05", "train", 0.24, 0.60, 4100, 0.33),
    "rank4-lr0.001": ("rank4 lr0.001", "train", 0.52, 0.655, 630, 0.33),
    "rank64-lr0.001": ("rank64 lr0.001", "train", 0.57, 0.70, 380, 0.35),
    "rank4-lr0.01": ("rank4 lr0.01", "train", 0.44, 0.55, 160, 0.6),
    "rank16-lr0.01": ("rank16 lr0.01", "train", None, None, None, None),
    "rank64-lr0.01": ("rank64 lr0.01", "train", None, None, None, None),
}
FAILED = {
    "rank16-lr0.01": (17, "the entropy fell to 0.00071 nats a token (watch.min_entropy 0.001)"),
    "rank64-lr0.01": (12, "98% of the rollouts give no answer (watch.missing 0.95)"),
}


def around(value: float | None, half: float, name: str) -> dict:
    value = np.nan if value is None else value
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def measures(right, best, tokens) -> dict:
    """pass@k on a curve from `right` to `best`, tokens with an interval of a ratio."""
    if right is None:
        return {}
    found = {}
    for k in range(1, 11 if best else 2):
        value = right if k == 1 else right + (best - right) * (1 - (1 - (k - 1) / 9) ** 2)
        found |= around(value, 0.06, f"pass_at_{k}")
    if tokens is not None:
        found |= {"leaf_tokens_mean": tokens, "leaf_tokens_mean_low": tokens * 0.72, "leaf_tokens_mean_high": tokens * 1.35}
        found |= around(tokens + 480, 60, "total_tokens_mean")
    return found


def runs() -> pd.DataFrame:
    """A row a run; the runs of FAILED stopped before their end."""
    rows = []
    for group, (label, kind, right, best, tokens, _) in PROFILES.items():
        lora = group not in ("base", "plain", "full")
        for seed in SEEDS.get(group, (42,)):
            stopped, why = FAILED.get(group, (None, ""))
            row = {"run": f"{group}-s{seed}", "group": group, "label": label, "kind": kind, "seed": seed}
            row |= {"state": "failed" if stopped else "done", "reason": reason(stopped, why)}
            row |= {"tuning": "lora" if lora else "full", "rank": rank_of(group) if lora else None, "lr": lr_of(group)}
            row |= {"depth": 2 if "depth2" in group else 1, "beta_max": 0.0 if group == "no-penalty" else 0.3}
            row |= {"child_bonus": 0.2 if group == "depth2-bonus" else 0.0}
            row |= {"hidden_labels": {"shown": 0.0, "hidden": 1.0}.get(group, 0.5)}
            row |= {"steps": STEPS if kind == "train" else 0, "steps_done": (stopped or STEPS) if kind == "train" else 0}
            rows.append(row | measures(right, best, tokens))
    return pd.DataFrame(rows)


def reason(step: int | None, why: str) -> str:
    advice = "begin another run with a lower training.lr, or more training.kl_tau or warmup_steps"
    return f"step {step - 1}: stopped, as {why}; step_10 is the best checkpoint; {advice}" if step else ""


def rank_of(group: str) -> int:
    return int(group.removeprefix("rank").split("-")[0]) if group.startswith("rank") else 16


def lr_of(group: str) -> float:
    return float(group.split("-lr")[1]) if group.startswith("rank") else 2e-4 if group == "full" else 1e-3


def groups() -> pd.DataFrame:
    """A row a group that was evaluated."""
    rows = []
    for group, (label, kind, right, best, tokens, _) in PROFILES.items():
        if right is not None:
            seeds = SEEDS.get(group, (42,))
            row = {"group": group, "label": label, "kind": kind, "runs": len(seeds), "seeds": ", ".join(map(str, seeds))}
            row |= {**measures(right, best, tokens), "n_rollouts": 1100 * len(seeds), "n_examples": 110}
            used = {"depth2": 0.004, "depth2-bonus": 0.31}.get(group, 0.0)
            rows.append(row | {"child_usage": used, "child_usage_low": used * 0.4, "child_usage_high": used * 1.3})
    return pd.DataFrame(rows)


def trained() -> list[dict]:
    return runs().query("kind == 'train'").to_dict("records")


def steps() -> pd.DataFrame:
    """All training steps of all runs: from the untrained values to those of the group, with noise; failed runs break down."""
    rng = np.random.default_rng(5)
    rows = []
    for run in trained():
        _, _, right, _, tokens, none = PROFILES[run["group"]]
        right, tokens, none = (0.5, 900, 0.5) if right is None else (right, tokens, none)
        for step in range(run["steps_done"]):
            share = 1 - np.exp(-step / 7)
            rows.append({**{name: run[name] for name in ("run", "group", "label", "seed")}, "step": step, "lr": run["lr"]})
            rows[-1] |= step_row(rng, share, right, tokens, none, step / max(1, run["steps_done"]), run)
    return pd.DataFrame(rows)


def step_row(rng, share: float, right: float, tokens: float, none: float, gone: float, run: dict) -> dict:
    broken = gone**3 if run["state"] == "failed" else 0.0
    correct = float(np.clip(0.19 + share * (right - 0.19) + rng.normal(0, 0.05), 0, 1))
    bonus = run["group"] == "depth2-bonus"
    return {
        "reward": correct - 0.1,
        "correct": correct * (1 - broken),
        "leaf_tokens_mean": float(np.exp(np.log(5500) + share * (np.log(tokens) - np.log(5500)) + rng.normal(0, 0.35))),
        "total_tokens": float(600 + np.exp(np.log(5500) + share * (np.log(tokens) - np.log(5500)) + rng.normal(0, 0.3))),
        "reply_tokens": float(130 * (1 + 4 * broken) + rng.normal(0, 6)),
        "llm_usage": float(np.clip(0.62 + share * (1 - none - 0.62) + rng.normal(0, 0.04), 0, 1)),
        "children": float(max(0, (0.5 * share if bonus else 0.01 * (1 - share)) + rng.normal(0, 0.02))) if run["depth"] == 2 else 0.0,
        "turns": float(3.1 - 0.6 * share + rng.normal(0, 0.1)),
        "missing": float(np.clip(0.38 - 0.3 * share + 0.7 * broken + rng.normal(0, 0.03), 0, 1)),
        "forced": float(max(0, rng.normal(0, 0.004))),
        "all_wrong": float(np.clip(0.55 - 0.4 * share + rng.normal(0, 0.05), 0, 1)),
        "all_right": float(np.clip(0.02 + 0.4 * share + rng.normal(0, 0.05), 0, 1)),
        "entropy": float(0.057 * np.exp(-1.2 * share - 5 * broken) * np.exp(rng.normal(0, 0.15))),
        "mismatch_kl_kept": float(rng.normal(-9e-11, 2e-11)),
        "grad_norm": float(rng.uniform(0.01, 0.03)),
        "sample_seconds": float(rng.uniform(5, 12)),
        "train_seconds": float(rng.uniform(1.5, 4)),
    }


def phases() -> pd.DataFrame:
    """Shares of behaviour: broad first, then none, then selective."""
    rng = np.random.default_rng(6)
    rows = []
    for run in trained():
        none = PROFILES[run["group"]][5] or 0.5
        for step in range(run["steps_done"]):
            share = 1 - np.exp(-step / 6)
            raw = np.array([0.45 * (1 - share) + 0.04, 0.15 + share * (0.9 - none), 0.3 + share * none, 0.1 * (1 - share) + 0.01])
            raw = np.clip(raw + rng.normal(0, 0.03, 4), 0.002, None)
            identity = {name: run[name] for name in ("run", "group", "label", "seed")}
            rows.append({**identity, "step": step, "rollouts": 140, **dict(zip(KINDS, raw / raw.sum(), strict=True))})
    return pd.DataFrame(rows)


def evaluations(questions: int = 40, attempts: int = 10) -> pd.DataFrame:
    """Rollouts of the evaluations: leaf tokens with a heavy tail."""
    rng = np.random.default_rng(7)
    parts = []
    for run in runs().to_dict("records"):
        _, kind, right, _, tokens, none = PROFILES[run["group"]]
        if right is None or kind == "plain":
            continue
        n = questions * attempts
        spent = np.where(rng.random(n) < none, 0, np.exp(rng.normal(np.log(tokens / 2.5), 1.3, n)).round())
        identity = {name: run[name] for name in ("run", "group", "label", "kind", "seed")}
        example = np.repeat(np.arange(questions), attempts)
        columns = {"split": "heldout", "family": [FAMILIES[e % 3] for e in example], "example": [f"heldout-{e:05d}" for e in example]}
        columns |= {"index": np.tile(np.arange(attempts), questions), "correct": rng.random(n) < right, "leaf_tokens": spent, "error": None}
        parts.append(pd.DataFrame({**identity, **columns}))
    return pd.concat(parts, ignore_index=True)


def differences() -> pd.DataFrame:
    """Each group less the untrained one, and the pairs of comparisons.py."""
    rng = np.random.default_rng(8)
    pairs = [(group, "base", f"{PROFILES[group][0]}, less untrained") for group in SEEDS]
    pairs += [
        ("lora", "no-penalty", "penalty on, less off"),
        ("full", "lora", "full, less LoRA"),
        ("hidden", "shown", "labels hidden, less shown"),
    ]
    rows = []
    for first, second, name in pairs:
        gain, ratio = PROFILES[first][2] - PROFILES[second][2], PROFILES[first][4] / PROFILES[second][4]
        seeds = [gain + e for e in rng.normal(0, 0.02, 3)], [ratio * np.exp(e) for e in rng.normal(0, 0.15, 3)]
        rows.append({"comparison": name, "measure": "right", **around(gain, 0.06, "value"), "seed_values": seeds[0]})
        rows.append(
            {"comparison": name, "measure": "tokens", "value": ratio, "low": ratio * 0.7, "high": ratio * 1.4, "seed_values": seeds[1]}
        )
    frame = pd.DataFrame(rows)
    right = frame["measure"] == "right"
    frame.loc[right, "low"], frame.loc[right, "high"] = frame["value_low"], frame["value_high"]
    return frame[["comparison", "measure", "value", "low", "high", "seed_values"]]


def families() -> pd.DataFrame:
    """Accuracy and leaf tokens of the headline groups by family."""
    rows = []
    for group in ("base", "lora", "no-penalty", "full"):
        label, _, right, _, tokens, _ = PROFILES[group]
        for number, family in enumerate(FAMILIES):
            value, spent = right * (0.75 + 0.25 * number), tokens * (1.7 - 0.6 * number)
            row = {"label": label, "family": family, "questions": (44, 16, 50)[number], **around(value, 0.08, "pass_at_1")}
            row |= {"leaf_tokens_mean": spent, "leaf_tokens_mean_low": spent * 0.6, "leaf_tokens_mean_high": spent * 1.7}
            rows.append(row)
    return pd.DataFrame(rows)
