"""A params file is read strictly: whatever is wrong in it is named, in one line, before anything starts."""

from pathlib import Path

import pytest

from rlmlib import config, params_file
from rlmlib.errors import ConfigError

PRESETS = [
    path for path in sorted((Path(__file__).parents[1] / "params").glob("*.yaml")) if path.stem != "dataset"
]  # it has a model of its own


@pytest.fixture
def refusal(tmp_path):
    """The message with which a params file of this text is refused."""

    def read(text: str, overrides: dict | None = None) -> str:
        path = tmp_path / "case.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ConfigError) as caught:
            config.load(path, overrides)
        return str(caught.value)

    return read


@pytest.fixture
def accepted(tmp_path):
    def read(text: str, overrides: dict | None = None) -> config.Params:
        path = tmp_path / "case.yaml"
        path.write_text(text)
        return config.load(path, overrides)

    return read


def test_there_are_presets():
    assert PRESETS


@pytest.mark.parametrize("path", PRESETS, ids=lambda p: p.stem)
def test_preset_loads(path):
    assert config.load(path).name


@pytest.mark.parametrize("path", PRESETS, ids=lambda p: p.stem)
def test_preset_survives_the_round_trip_through_params_json(path):
    params = config.load(path)
    assert config.validate(params.model_dump(mode="json")) == params


def test_what_a_file_leaves_out_has_its_default(accepted):
    params = accepted("name: x\ntraining:\n  steps: 7\n")
    assert (params.training.steps, params.training.rollouts_per_prompt, params.seed) == (7, 4, 42)


def test_unknown_key_is_named_with_its_section(refusal):
    assert "training.zzz: no such parameter" in refusal("name: x\ntraining:\n  zzz: 1\n")


def test_unknown_key_gets_a_suggestion(refusal):
    assert "did you mean 'beta_max'?" in refusal("name: x\nreward:\n  betamax: 0.1\n")


def test_unknown_section_gets_a_suggestion(refusal):
    assert "did you mean 'training'?" in refusal("name: x\ntrainning:\n  steps: 1\n")
    assert "did you mean 'window'?" in refusal("name: x\ntraining:\n  watch:\n    windo: 1\n")


def test_unknown_key_two_sections_deep_gets_a_suggestion(refusal):
    message = refusal("name: x\npolicy:\n  lora:\n    rnk: 4\n")
    assert "policy.lora.rnk: no such parameter; did you mean 'rank'?" in message


def test_unknown_key_like_no_other_gets_no_suggestion(refusal):
    assert "did you mean" not in refusal("name: x\nreward:\n  qqqqqq: 0.1\n")


@pytest.mark.parametrize(
    "line",
    [
        "training: {steps: 1.5}",
        "training: {steps: '3'}",
        "training: {steps: true}",
        "training: {steps: 0}",
        "training: {steps: -1}",
        "training: {steps: null}",
        "training: {steps: [1]}",
        "training: {rollouts_per_prompt: 1}",
        "reward: {p0: 1.0}",
        "reward: {scope: everyone}",
        "reward: {beta_max: -0.1}",
        "training: {beta1: 1.0}",
        "training: {beta2: 1.0}",
        "training: {parallel: sharded}",
        "sampling: {temperature: 0}",
        "harness: {depth: 9}",
        "policy: {lora: {targets: q_proj}}",
        "training: {lr: .nan}",
    ],
)
def test_wrong_value_is_refused_by_its_full_name(refusal, line):
    import yaml

    section, inner = next(iter(yaml.safe_load(line).items()))
    key, value = next(iter(inner.items()))
    name = f"{section}.{key}" + (f".{next(iter(value))}" if isinstance(value, dict) else "")
    assert name in refusal(f"name: x\n{line}\n")


def test_every_wrong_key_of_a_file_is_named_at_once(refusal):
    message = refusal("name: x\ntraining: {steps: 0, lr: -1}\nreward: {betamax: 1}\n")
    assert all(key in message for key in ("training.steps", "training.lr", "reward.betamax"))


def test_scientific_number_without_a_dot_is_explained(refusal):
    message = refusal("name: x\ntraining:\n  lr: 1e-5\n")
    assert "training.lr" in message and "is a string to YAML 1.1" in message and "1.0e-5" in message


def test_scientific_number_with_a_dot_is_a_number(accepted):
    assert accepted("name: x\ntraining:\n  lr: 1.0e-5\n").training.lr == 1e-5


@pytest.mark.parametrize("word", ["on", "off", "yes", "no"])
def test_bare_on_off_where_text_is_wanted_is_explained(refusal, word):
    message = refusal(f"name: x\nleaf:\n  model: {word}\n")
    assert "leaf.model" in message and "bare on/off/yes/no" in message


@pytest.mark.parametrize("word", ["on", "no"])
def test_bare_on_off_as_a_choice_is_explained(refusal, word):
    message = refusal(f"name: x\nleaf:\n  thinking: {word}\n")
    assert "leaf.thinking" in message and "quote it" in message


def test_bare_yes_is_a_boolean_where_one_is_wanted(accepted):
    assert accepted("name: x\ntraining:\n  keep_all_right: yes\n").training.keep_all_right is True


def test_quoted_yes_is_no_boolean(refusal):
    assert "training.keep_all_right" in refusal("name: x\ntraining:\n  keep_all_right: 'yes'\n")


def test_sexagesimal_number_is_refused_with_its_line(refusal):
    message = refusal("name: x\nharness:\n  rollout_timeout_s: 1:30\n")
    assert "line 3" in message and "1:30" in message and "base 60" in message


def test_sexagesimal_fraction_is_refused(refusal):
    assert "base 60" in refusal("name: x\nharness:\n  rollout_timeout_s: 1:30.5\n")


def test_duplicate_key_is_refused_with_its_line(refusal):
    message = refusal("name: x\ntraining:\n  lr: 0.1\n  steps: 2\n  lr: 0.2\n")
    assert "line 5" in message and "'lr' is given twice" in message


def test_duplicate_section_is_refused(refusal):
    assert "'training' is given twice" in refusal("name: x\ntraining: {lr: 0.1}\ntraining: {steps: 2}\n")


def test_same_key_in_two_sections_is_no_duplicate(accepted):
    params = accepted("name: x\nsampling: {temperature: 0.5}\nleaf: {temperature: 0.25}\n")
    assert (params.sampling.temperature, params.leaf.temperature) == (0.5, 0.25)


def test_missing_file_says_where_presets_are(tmp_path):
    with pytest.raises(ConfigError, match="nothing.yaml: cannot be read.*params/"):
        config.load(tmp_path / "nothing.yaml")


def test_folder_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(tmp_path)


def test_file_that_is_not_utf8_is_refused(refusal):
    assert "case.yaml" in refusal("name: Köln\n".encode("latin-1"))


def test_empty_file_says_what_is_required(refusal):
    assert "name: is required" in refusal("")


def test_broken_yaml_is_refused(refusal):
    assert "is not valid YAML" in refusal("name: [1, 2\n")


def test_list_in_place_of_keys_is_refused(refusal):
    assert "expected 'key: value' lines" in refusal("- name\n- x\n")


def test_list_in_place_of_keys_is_refused_with_overrides(refusal):
    assert "expected 'key: value' lines" in refusal("- name\n- x\n", {"seed": 1})


def test_date_in_place_of_text_is_refused(refusal):
    assert "name: input should be a valid string" in refusal("name: 2025-01-02\n")


def test_impossible_date_is_refused(refusal):
    assert "case.yaml" in refusal("name: 2025-13-45\n")


def test_list_as_a_key_is_refused(refusal):
    assert "case.yaml" in refusal("name: x\n? [a, b]\n: 1\n")


def test_number_as_a_key_is_refused(refusal):
    assert "case.yaml" in refusal("name: x\n7: 1\n")


def test_section_left_empty_is_refused_by_name(refusal):
    assert "training" in refusal("name: x\ntraining:\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: [1, 2\n",
        "name: x\ntraining: {steps: 0, lr: -1}\n",
        "name: x\ntraining:\n  lr: 1e-5\n",
        "name: x\nleaf: {model: on}\n",
        "name: x\nname: y\n",
        'name: x\n"two\\nlines": 1\n',
        "name: x\nreward: {scope: 'two\n\n    lines'}\n",
        "name: x\ntasks: {aggregation: 0.9}\n",
        "a: b: c\n",
        "\tname: x\n",
    ],
    ids=lambda text: repr(text)[:30],
)
def test_message_is_one_line(refusal, text):
    assert len(refusal(text).splitlines()) == 1


def test_message_names_the_file(refusal):
    assert "case.yaml: " in refusal("name: x\ntraining: {steps: 0}\n")


def test_mixture_must_sum_to_one(refusal):
    message = refusal("name: x\ntasks: {aggregation: 0.5, research: 0.4, coding: 0.25}\n")
    assert "tasks: " in message and "must be 1, not 1.15" in message


def test_mixture_that_sums_to_one_up_to_rounding_is_accepted(accepted):
    assert accepted("name: x\ntasks: {aggregation: 0.1, research: 0.2, coding: 0.7}\n").tasks.coding == 0.7


def test_shortest_context_must_not_be_over_the_longest(refusal):
    assert "min_chars 9000 is over max_chars 8000" in refusal("name: x\ntasks: {min_chars: 9000, max_chars: 8000}\n")


def test_a_reply_must_fit_its_conversation(refusal):
    assert "max_turn_tokens" in refusal("name: x\nsampling: {max_turn_tokens: 100, max_sequence_tokens: 100}\n")


def test_override_replaces_a_value(accepted):
    assert accepted("name: x\ntraining: {steps: 3}\n", {"training.steps": 9}).training.steps == 9


def test_override_keeps_its_neighbours(accepted):
    assert accepted("name: x\ntraining: {steps: 3}\n", {"training.lr": 0.5}).training.steps == 3


def test_override_makes_the_sections_it_needs(accepted):
    assert accepted("name: x\n", {"policy.lora.rank": 4}).policy.lora.rank == 4


def test_override_of_an_unknown_key_gets_a_suggestion(refusal):
    assert "did you mean 'steps'?" in refusal("name: x\n", {"training.step": 3})


def test_override_of_a_wrong_type_is_refused(refusal):
    assert "training.steps" in refusal("name: x\n", {"training.steps": "many"})


def test_override_below_a_value_is_refused(refusal):
    assert "'name' is a value, not a section" in refusal("name: x\n", {"name.first": 1})


def test_override_leaves_its_input_alone():
    values = {"training": {"steps": 3}}
    params_file.override(values, {"training.steps": 4})
    assert values == {"training": {"steps": 3}}


def test_params_cannot_be_changed(accepted):
    from pydantic import ValidationError

    with pytest.raises(ValidationError, match="frozen"):
        accepted("name: x\n").training.steps = 3


def test_every_parameter_has_a_description():
    def bare(model, prefix=""):
        for name, field in model.model_fields.items():
            if hasattr(field.annotation, "model_fields"):
                yield from bare(field.annotation, f"{prefix}{name}.")
            elif not field.description:
                yield prefix + name

    assert list(bare(config.Params)) == []


@pytest.mark.parametrize("value", ["010", "-0777", "0_1"])
def test_octal_number_is_refused(refusal, value):
    assert "base 8" in refusal(f"name: x\nseed: {value}\n")


@pytest.mark.parametrize("text", ["harness:\n  block_timeout_s: .inf", "training:\n  lr: .nan"])
def test_numbers_that_are_none_are_refused(refusal, text):
    assert "finite number" in refusal(f"name: x\n{text}\n")


def test_a_seed_that_no_library_takes_is_refused(refusal):
    assert "seed" in refusal("name: x\nseed: 99999999999999999999\n")


def test_deep_nesting_is_one_line(refusal):
    assert "nested too deeply" in refusal("name: " + "[" * 3000)


def test_a_merge_key_works_as_in_yaml(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("name: x\ntasks: &t\n  pool: 7\n  max_chars: 9000\nreward: {beta_max: 0.1}\n")
    assert config.load(path).tasks.pool == 7
    path.write_text("name: x\ntasks:\n  <<: {pool: 7}\n  max_chars: 9000\n")
    assert config.load(path).tasks.pool == 7
