"""Strict numerics for every test: no silent promotion, two CPU devices, one compilation cache for all runs."""

import gc
import itertools
import mmap
import os
from pathlib import Path

import jax
import jaxlib
import pytest

from jaxdis import runtime

# Programs of tests run for milliseconds and take seconds to compile: a fifth of that without optimization.
QUICK_TO_COMPILE = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}


def compile_quickly():
    """For this process and those it starts; XLA reads its flags when it first compiles, and ends at an unknown one.

    Flags that are set already stay: tests that train for minutes take a fraction of the time with
    ``XLA_FLAGS=--xla_backend_optimization_level=3 python -m pytest -m slow …``.
    """
    given = os.environ.get("XLA_FLAGS", "")
    flags = [f"--{flag}={value}" for flag, value in QUICK_TO_COMPILE.items() if flag not in given and known(flag)]
    os.environ["XLA_FLAGS"] = " ".join([*flags, given]).strip()


def known(flag: str) -> bool:
    libraries = Path(jaxlib.__file__).parent.glob("*jax_common*")
    return any(contains(library, flag.encode()) for library in libraries)


def contains(path: Path, text: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


compile_quickly()
runtime.use_cpu_devices(2)
runtime.use_compilation_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # no program is compiled by both workers
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


# Five seconds or more each, mostly compiling; tests or cases beside them hold the same code to its contract every time.
LONG = (
    "test_methods.py::test_members_are_equal_whatever_the_grouping[weak_de]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[parted_vae]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[labelled_partition]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[infogan]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[resnet_vae]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[monet]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[genesis]",
    "test_methods.py::test_members_are_equal_whatever_the_grouping[iodine]",
    "test_evaluate.py::test_the_depth_of_the_final_forest_is_chosen_on_a_share_of_its_own",
    "test_evaluate.py::test_boosted_trees_as_the_final_relation",
    "test_knockout.py::test_knock_out_sees_a_distributed_code_where_others_see_nothing",
    "test_library.py::test_mahon2024_holds_out_reads_out_and_correlates",
    "test_executors.py::test_a_dask_scheduler_restarted_mid_run",
    "test_executors.py::test_workers_end_with_their_driver_in_the_middle_of_what_they_do[2]",
    "test_executors.py::test_workers_end_with_their_driver_in_the_middle_of_what_they_do[15]",
    "test_binless.py::test_edi_is_undefined_where_no_code_carries_information",
    "test_binless.py::test_networks_are_asked_for_by_name",
    "test_binless.py::test_capped_shares_are_of_the_larger_estimate",
    "test_train.py::test_together_apart_and_alone_agree[network1-factor]",
    "test_train.py::test_together_apart_and_alone_agree[network0-mixed]",
    "test_trees.py::test_few_samples_agree_with_scikit_learn",
    "test_trees.py::test_classes_long_certain_do_not_move_again[exact]",
    "test_bootstrap.py::test_intervals_of_nearest_neighbors_cover_what_fresh_samples_give[edi.modularity]",
    "test_bootstrap.py::test_metrics_have_an_error[dci]",
    "test_bootstrap.py::test_metrics_have_an_error[edi]",
    "test_neighbors.py::test_values_on_a_grid_are_the_mean_over_noise[0-0.03]",
    "test_neighbors.py::test_many_pairs_equal_sklearn",
    "test_presets.py::test_every_preset_trains[julka2024]",
    "test_presets.py::test_every_preset_trains[mahon2024]",
    "test_standins.py::test_every_value_of_every_factor_is_seen[standin_gray_turntable]",
    "test_standins.py::test_every_value_of_every_factor_is_seen[standin_turntable]",
    "test_validation.py::test_the_depth_is_that_of_the_best_forest_of_a_single_depth[variance]",
    "test_single_neuron.py::test_independent_codes_score_zero_within_their_error",
    "test_notebooks.py::test_it_runs_at_toy_size[your_own_arrays]",
    "test_notebooks.py::test_it_runs_at_toy_size[train_a_zoo]",
    "test_degenerate.py::test_masks_take_collapsed_codes_out_of_every_metric[downstream_trees]",
    "test_train.py::test_micro_batches_do_not_matter[network1-beta]",
    "test_train.py::test_micro_batches_do_not_matter[network1-factor]",
    "test_neighbors.py::test_gaussians_equal_the_reference_and_lie_by_the_truth[0.0-10-sorted]",
    "test_neighbors.py::test_gaussians_equal_the_reference_and_lie_by_the_truth[0.0-3-brute]",
    "test_neighbors.py::test_gaussians_equal_the_reference_and_lie_by_the_truth[0.0-3-sorted]",
    "test_trees.py::test_agrees_with_scikit_learn[redundant]",
    "test_trees.py::test_agrees_with_scikit_learn[rotation]",
    "test_trees.py::test_discrete_and_continuous_factors_fit_together_as_they_do_apart",
    "test_trees.py::test_forest_is_within_the_spread_of_scikit_learn[entropy]",
    "test_noisy.py::test_a_noisy_set_is_trained_encoded_and_scored[color_dsprites-anew]",
    "test_evaluate.py::test_scores_return_to_those_of_unshuffled_slots",
    "test_sprite_variants.py::test_scenes_are_painted_in_order[4-1]",
    "test_binless.py::test_calibration_cases_equal_the_reference_up_to_its_noise[010]",
    "test_binless.py::test_calibration_cases_equal_the_reference_up_to_its_noise[000]",
    "test_bootstrap.py::test_metrics_have_an_error[dci_forest]",
    "test_bootstrap.py::test_metrics_have_an_error[infom]",
    "test_simulated.py::test_a_code_that_is_not_finite_and_one_that_is_not_active[beta_vae]",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.endswith(LONG):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def collect_garbage_rarely():
    """Tracing makes many objects that stay: by default a tenth of the time goes into walking them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


TESTS = itertools.count(1)
# Tests between two looks at the memory maps, of which there are thousands to count.
BETWEEN = 4


@pytest.fixture(autouse=True)
def let_programs_go():
    """A process has a limit of memory maps, and every compiled program holds some."""
    yield
    if next(TESTS) % BETWEEN == 0 and runtime.forget_programs_if_many():
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def let_all_programs_go():
    yield
    jax.clear_caches()
