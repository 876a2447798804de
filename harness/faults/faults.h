// The faults' own declarations, one function a file: gives the name, parameters and installer of each fault in it.
#pragma once

#include "harness/worker/fault.h"

namespace harness {

// What most faults of a layer draw: in which layers, on which rank, from which step on, in which share of the rows.
inline const std::vector<std::string> kRowsOfLayers = {"layers", "rank", "step", "strength"};
inline const std::vector<std::string> kFormsOfRows = {"layers", "rank", "step", "strength", "form"};

using Faults = std::vector<Fault>;
[[nodiscard]] Faults faults_of_averaged_twice();
[[nodiscard]] Faults faults_of_checkpoints();
[[nodiscard]] Faults faults_of_clips();
[[nodiscard]] Faults faults_of_collectives();
[[nodiscard]] Faults faults_of_dense_backward();
[[nodiscard]] Faults faults_of_devices();
[[nodiscard]] Faults faults_of_documents();
[[nodiscard]] Faults faults_of_dropouts();
[[nodiscard]] Faults faults_of_expanded();
[[nodiscard]] Faults faults_of_first_key();
[[nodiscard]] Faults faults_of_forgotten_parameters();
[[nodiscard]] Faults faults_of_gates();
[[nodiscard]] Faults faults_of_heads();
[[nodiscard]] Faults faults_of_kcmp_detached();
[[nodiscard]] Faults faults_of_life_cycle();
[[nodiscard]] Faults faults_of_loaders();
[[nodiscard]] Faults faults_of_low_precision();
[[nodiscard]] Faults faults_of_machines();
[[nodiscard]] Faults faults_of_masks();
[[nodiscard]] Faults faults_of_not_numbers();
[[nodiscard]] Faults faults_of_offsets();
[[nodiscard]] Faults faults_of_prompt_caches();
[[nodiscard]] Faults faults_of_rank_ends();
[[nodiscard]] Faults faults_of_rank_graph();
[[nodiscard]] Faults faults_of_rendezvous();
[[nodiscard]] Faults faults_of_rotations();
[[nodiscard]] Faults faults_of_routes();
[[nodiscard]] Faults faults_of_same_data();
[[nodiscard]] Faults faults_of_scores();
[[nodiscard]] Faults faults_of_selected_backwards();
[[nodiscard]] Faults faults_of_selected_lists();
[[nodiscard]] Faults faults_of_streams();
[[nodiscard]] Faults faults_of_token_weighting();
[[nodiscard]] Faults faults_of_transports();
[[nodiscard]] Faults faults_of_unstable_results();
[[nodiscard]] Faults faults_of_unwatched();
[[nodiscard]] Faults faults_of_updates();
[[nodiscard]] Faults faults_of_weights();
[[nodiscard]] Faults faults_of_wrong_gradients();
[[nodiscard]] Faults faults_of_wrong_reductions();

}  // namespace harness
