"""Which tests of rlms say something about any REPL of a recursive language model, and which say something of rlms alone.

A test is left out where it checks rlms' own internals, or a feature that this project does not have; each with its reason.
Every other test of FILES is run. Those in DIFFERENT are run too, and fail: the behaviour is another one by decision.
Tests are named `file::test`, without the file's `test_` and the class.
"""

FILES = (
    "test_local_repl.py",
    "test_local_repl_persistent.py",
    "test_parsing.py",
    "test_rlm_query.py",
    "test_ipython_repl.py",
    "test_docker_repl_persistent.py",
    "test_docker_repl_robustness.py",
)

FILES_LEFT_OUT = {
    "test_depth_metadata.py": "its class RLM, with patched clients",
    "test_e2e_depth.py": "its class RLM, with a paid API",
    "test_imports.py": "its module tree",
    "test_lm_handler.py": "its socket server; needs a file that the sdist lacks",
    "test_multi_turn_integration.py": "its class RLM, with patched clients",
    "test_subcall.py": "its class RLM, with patched clients",
    "test_types.py": "its dataclasses",
}

_REASONS = {
    "attribute of its class": """
        local_repl_persistent::test_update_handler_address
        rlm_query::test_max_concurrent_subcalls_default_value
        rlm_query::test_max_concurrent_subcalls_custom_value
        rlm_query::test_base_env_has_max_concurrent_subcalls
        rlm_query::test_base_env_default_max_concurrent_subcalls
        ipython_repl::test_subcall_timeout_none_is_allowed
        ipython_repl::test_update_handler_address[subprocess]
        ipython_repl::test_cell_timeout_zero_treated_as_disabled[subprocess]
        ipython_repl::test_persistent_env_exposes_protocol[subprocess]
        docker_repl_persistent::test_satisfies_persistence_protocol
        docker_repl_persistent::test_update_handler_address""",
    "layout of its messages": """
        parsing::test_stdout_only
        parsing::test_stderr_only
        parsing::test_with_locals
        parsing::test_excludes_private_vars
        parsing::test_empty_result
        parsing::test_iteration_with_code_blocks
        parsing::test_iteration_without_code_blocks""",
    "wording of its messages": """
        ipython_repl::test_in_process_input_is_disabled
        docker_repl_robustness::test_overwritten_show_vars_restored""",
    "how it hands a context on": """
        parsing::test_string_context
        parsing::test_dict_context
        parsing::test_list_of_strings
        parsing::test_list_of_message_dicts
        ipython_repl::test_setup_failure_runs_cleanup""",
    "how it runs IPython": """
        ipython_repl::test_invalid_kernel_mode_rejected
        ipython_repl::test_invalid_startup_timeout_rejected[0]
        ipython_repl::test_invalid_startup_timeout_rejected[-1]
        ipython_repl::test_invalid_startup_timeout_rejected[-0.5]
        ipython_repl::test_invalid_subcall_timeout_rejected[0]
        ipython_repl::test_invalid_subcall_timeout_rejected[-1]
        ipython_repl::test_invalid_subcall_timeout_rejected[-0.5]
        ipython_repl::test_init_failure_preserves_original_exception_over_cleanup_error
        ipython_repl::test_get_environment_routes_ipython
        ipython_repl::test_get_environment_routes_ipython_subprocess
        ipython_repl::test_ipython_repl_importable_from_package
        ipython_repl::test_cleanup_unregisters_atexit_handler
        ipython_repl::test_in_process_two_instances_have_distinct_user_modules
        ipython_repl::test_in_process_user_module_dropped_from_sys_modules_on_cleanup
        ipython_repl::test_in_process_cell_cannot_reenter_via_scaffold_self
        ipython_repl::test_in_process_scaffold_self_reentry_preserves_outer_state""",
    "several host threads drive one REPL: here only its rollout does": """
        ipython_repl::test_subcall_fn_reentry_into_same_repl_raises[subprocess]
        ipython_repl::test_concurrent_execute_does_not_lose_rlm_calls[subprocess]
        ipython_repl::test_concurrent_add_context_indices_are_unique[subprocess]""",
    "how it runs Docker": """
        docker_repl_robustness::test_unpicklable_dropped_picklable_survives
        docker_repl_robustness::test_two_repls_isolated_state_and_tracking
        docker_repl_robustness::test_double_cleanup_idempotent
        docker_repl_robustness::test_context_manager_cleans_up""",
    "no such feature: a model named in the call": """
        rlm_query::test_rlm_query_with_model_override
        rlm_query::test_batched_with_model_override
        docker_repl_robustness::test_rlm_query_model_override_propagates""",
    "no such feature: host functions as tools": """
        ipython_repl::test_custom_tool_callable[subprocess]
        ipython_repl::test_custom_tool_data[subprocess]
        docker_repl_robustness::test_reserved_name_rejected
        docker_repl_robustness::test_code_string_and_data_tools
        docker_repl_robustness::test_host_callable_tool_skipped_without_crash
        docker_repl_robustness::test_data_tool_with_special_characters_roundtrips""",
    "no such feature: compaction": """
        docker_repl_persistent::test_history_seeded_as_list
        docker_repl_persistent::test_append_compaction_entry
        docker_repl_persistent::test_append_ignored_without_compaction
        docker_repl_persistent::test_history_survives_model_overwrite""",
    "no such feature: a second question in the same session": """
        docker_repl_robustness::test_update_handler_address_resets_stale_answer""",
}

LEFT_OUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}

DIFFERENT = {
    "parsing::test_non_repl_code_blocks_ignored": "a fence tagged python is run too: models write it often",
    "ipython_repl::test_in_process_input_restored_if_user_overwrites": "a builtin that a block rebinds stays the block's, as in Python",
    "ipython_repl::test_stale_subcall_completion_not_misattributed_to_next_cell": "a block's limit does not count its wait for subcalls",
    "ipython_repl::test_stale_final_answer_not_misattributed_to_next_cell": "a block's limit does not count its wait for subcalls",
    "docker_repl_robustness::test_concurrent_llm_query_from_container_threads": "threads take turns; llm_query_batched is the parallel way",
}


def left_out(name: str) -> str | None:
    """Why a test of FILES is left out, or None."""
    if name.endswith("[in_process]"):
        return "run once, under its other parameter: both modes are the same worker here"
    if name == "ipython_repl::test_in_process_subcall_concurrency_is_globally_bounded":
        return "run once, as test_subcall_concurrency_is_globally_bounded"
    return LEFT_OUT.get(name)
