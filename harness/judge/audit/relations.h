// Relations that hold in every record of a worker, whatever the model computes: each is asked of the whole record and gives one
// sentence that names the two places which contradict each other, or "".
#pragma once

#include <string>

#include "harness/judge/audit/record.h"

namespace harness::audit {

using Asked = std::string (*)(const Record& record);

// ---- rows alone (row_relations.cpp) ----
std::string artefact_is_where_it_says(const Record& record);
std::string one_row_a_file(const Record& record);
std::string rows_are_of_the_case(const Record& record);
std::string what_was_ready_was_reached(const Record& record);
std::string state_is_of_absmax(const Record& record);
std::string bucket_is_of_plan(const Record& record);
std::string update_counts_are_parts(const Record& record);
std::string exposure_counts_are_parts(const Record& record);
std::string recompute_counts_its_blocks(const Record& record);
std::string collective_began(const Record& record);
std::string heartbeat_counts_collectives(const Record& record);

// ---- rows that tell one fact (count_relations.cpp) ----
std::string one_row_a_fact(const Record& record);
std::string orders_are_as_many_as_counts(const Record& record);
std::string row_is_of_a_phase(const Record& record);
std::string sequence_has_no_hole(const Record& record);
std::string known_sum_shows_what_is_wrong(const Record& record);
std::string known_sum_is_as_large_as_its_reduction(const Record& record);
std::string model_has_its_parameters(const Record& record);
std::string known_sum_is_of_its_bucket(const Record& record);
std::string snapshot_is_of_its_step(const Record& record);
std::string snapshot_has_its_size(const Record& record);
std::string last_heartbeat_counts_all(const Record& record);
std::string who_ends_well_is_done(const Record& record);

// ---- times (time_relations.cpp) ----
std::string speed_is_tokens_by_time(const Record& record);
std::string step_is_as_long_as_its_phases(const Record& record);
std::string step_fits_between_its_rows(const Record& record);
std::string steps_fit_into_the_process(const Record& record);
std::string nothing_is_written_after_the_end(const Record& record);

// ---- rows against files (tensor_relations.cpp, layer_relations.cpp) ----
std::string gradient_hash_is_of_tensor(const Record& record);
std::string gradient_size_is_of_tensor(const Record& record);
std::string update_counts_the_tensor(const Record& record);
std::string parameter_hash_is_of_tensor(const Record& record);
std::string batch_hash_is_of_its_tokens(const Record& record);
std::string loss_is_of_its_step(const Record& record);
std::string blocks_hash_is_of_tensor(const Record& record);
std::string scores_hash_is_of_its_layer(const Record& record);
std::string gate_hash_is_of_its_layer(const Record& record);
std::string gate_means_are_of_tensor(const Record& record);
std::string exposure_counts_the_blocks(const Record& record);
std::string layer_gradient_is_of_its_layer(const Record& record);
std::string layer_weights_are_of_its_layer(const Record& record);
std::string layers_have_their_own_results(const Record& record);
std::string twin_has_the_gradients_of_its_rank(const Record& record);

}  // namespace harness::audit
