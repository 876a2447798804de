#include "harness/judge/audit/record_audit.h"

#include <array>
#include <optional>
#include <utility>

#include "harness/judge/audit/relations.h"

namespace harness {
namespace {

struct Relation {
  const char* name;
  audit::Asked ask;
};

// Rows alone come first: they cost nothing. A row that is not in its own file makes what follows useless.
constexpr std::array kRelations = {
    Relation{"the place of a file / its row", audit::artefact_is_where_it_says},
    Relation{"a file / one row", audit::one_row_a_file},
    Relation{"a row / the size of the case", audit::rows_are_of_the_case},
    Relation{"reach / readiness of a gradient", audit::what_was_ready_was_reached},
    Relation{"state / largest value of a gradient", audit::state_is_of_absmax},
    Relation{"bucket of a gradient / plan of buckets", audit::bucket_is_of_plan},
    Relation{"parts / whole of an update", audit::update_counts_are_parts},
    Relation{"parts / whole of an exposure", audit::exposure_counts_are_parts},
    Relation{"hashes / differing rows of a recomputation", audit::recompute_counts_its_blocks},
    Relation{"end / beginning of a collective", audit::collective_began},
    Relation{"counter / rows of collectives", audit::heartbeat_counts_collectives},
    Relation{"a fact / one row", audit::one_row_a_fact},
    Relation{"order / count of gradients", audit::orders_are_as_many_as_counts},
    Relation{"a row of a step / its phase", audit::row_is_of_a_phase},
    Relation{"numbers of collectives / their count", audit::sequence_has_no_hole},
    Relation{"wrong elements of a known sum / their places", audit::known_sum_shows_what_is_wrong},
    Relation{"size of a known sum / its collective", audit::known_sum_is_as_large_as_its_reduction},
    Relation{"size of a known sum / its bucket", audit::known_sum_is_of_its_bucket},
    Relation{"step of a snapshot / its path", audit::snapshot_is_of_its_step},
    Relation{"size of a snapshot / its file", audit::snapshot_has_its_size},
    Relation{"number of parameters / model", audit::model_has_its_parameters},
    Relation{"last heartbeat / all rows", audit::last_heartbeat_counts_all},
    Relation{"end of a process / its last row", audit::who_ends_well_is_done},
    Relation{"tokens per second / time of a step", audit::speed_is_tokens_by_time},
    Relation{"time of a step / its phases", audit::step_is_as_long_as_its_phases},
    Relation{"time of a step / the rows around it", audit::step_fits_between_its_rows},
    Relation{"times of all steps / life of the process", audit::steps_fit_into_the_process},
    Relation{"a row / the end of its process", audit::nothing_is_written_after_the_end},
    Relation{"hash of a gradient / tensor", audit::gradient_hash_is_of_tensor},
    Relation{"norms of a gradient / tensor", audit::gradient_size_is_of_tensor},
    Relation{"elements of an update / tensor", audit::update_counts_the_tensor},
    Relation{"hash of a parameter / tensor", audit::parameter_hash_is_of_tensor},
    Relation{"hash of a batch / tokens", audit::batch_hash_is_of_its_tokens},
    Relation{"loss / losses of the step's file", audit::loss_is_of_its_step},
    Relation{"hash of blocks / tensor", audit::blocks_hash_is_of_tensor},
    Relation{"hash of scores / tensor", audit::scores_hash_is_of_its_layer},
    Relation{"hash of gates / tensor", audit::gate_hash_is_of_its_layer},
    Relation{"means of gates / tensor", audit::gate_means_are_of_tensor},
    Relation{"exposure / blocks", audit::exposure_counts_the_blocks},
    Relation{"gradients of a layer / gradients of the step", audit::layer_gradient_is_of_its_layer},
    Relation{"weights of a layer / weights of the step", audit::layer_weights_are_of_its_layer},
    Relation{"results of two layers / their attentions", audit::layers_have_their_own_results},
    Relation{"the twin's gradients / those of the rank",
             audit::twin_has_the_gradients_of_its_rank}};

}  // namespace

Contradiction contradiction_in(const Evidence& evidence) {
  const Scenario& scenario = evidence.the_case.scenario;
  // What others record has other relations.
  if (scenario.is_command() || scenario.is_foreign()) return {};
  std::optional<Evidence> last;  // what an earlier life wrote, the last one may have written over
  if (!evidence.relaunches.empty()) last = evidence.last_life();
  const audit::Record record(last ? *last : evidence);
  for (const Relation& relation : kRelations) {
    std::string found = relation.ask(record);
    if (!found.empty()) return {relation.name, std::move(found)};
  }
  return {};
}

std::vector<std::string> audited_relations() {
  std::vector<std::string> names;
  for (const Relation& relation : kRelations) names.emplace_back(relation.name);
  return names;
}

}  // namespace harness
