"""These tests need vLLM: `make test-vllm` runs them in an environment of their own, other runs leave them out."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("vllm") else ["test_*.py"]
