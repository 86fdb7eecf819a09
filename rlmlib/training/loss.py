"""prime-rl's IPO-masked loss, as the study used it. Pure functions over flat token tensors [T].

    a, b  trainer and sampler log-prob of the sampled token, both at the sampling temperature
    drop  = |exp(a) - exp(b)| > threshold                whatever the sign of the advantage
    rho   = exp(a - b)                                   differentiated, not clipped
    L     = 1/N * sum(-(~drop) * A * rho + kl_tau * (a - b)**2)

N counts the trained tokens of the whole step, dropped ones included, so the sum over
micro-batches is the same however the step is split.
"""

from dataclasses import dataclass

import torch

MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class LossStats:
    """Sums over the tokens of one micro-batch; divide by `tokens` of the whole step."""

    tokens: int
    dropped_high: int
    dropped_low: int
    mismatch_kept: float
    mismatch_dropped: float
    max_gap: float


def ipo_masked_loss(trainer, sampler, advantage, total_tokens: int, threshold: float, kl_tau: float):
    """(loss, LossStats) for trained tokens only: log-probs and advantages [T], all masked tokens left out."""
    moved = trainer.detach().exp() - sampler.exp()
    drop = moved.abs() > threshold
    log_ratio = trainer - sampler
    # where dropped the exponent is replaced, not multiplied by 0: inf * 0 would be NaN in the gradient
    safe = torch.where(drop, torch.zeros_like(log_ratio), log_ratio).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    rho = safe.exp()
    policy = torch.where(drop, torch.zeros_like(rho), advantage * rho)
    loss = (-policy + kl_tau * log_ratio.square()).sum() / max(1, total_tokens)
    with torch.no_grad():
        bounded = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        mismatch = bounded.exp() - bounded - 1
        stats = LossStats(
            tokens=len(trainer),
            dropped_high=int((drop & (moved > 0)).sum()),
            dropped_low=int((drop & (moved < 0)).sum()),
            mismatch_kept=float(mismatch[~drop].sum()),
            mismatch_dropped=float(mismatch[drop].sum()),
            max_gap=float(log_ratio.abs().max()) if len(log_ratio) else 0.0,
        )
    return loss, stats
