"""LoRA GRPO with the study's loss: the loop, its step, its curriculum and its checkpoints."""
