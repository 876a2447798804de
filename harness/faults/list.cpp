#include "harness/faults/list.h"

#include <algorithm>

#include "harness/faults/faults.h"
#include "nsa/base/error.h"

namespace harness {

const std::vector<Fault>& all_faults() {
  static const Faults kFaults = [] {
    Faults all;
    for (const Faults& some : {faults_of_averaged_twice(),
                               faults_of_checkpoints(),
                               faults_of_clips(),
                               faults_of_collectives(),
                               faults_of_dense_backward(),
                               faults_of_devices(),
                               faults_of_documents(),
                               faults_of_dropouts(),
                               faults_of_expanded(),
                               faults_of_first_key(),
                               faults_of_forgotten_parameters(),
                               faults_of_gates(),
                               faults_of_heads(),
                               faults_of_kcmp_detached(),
                               faults_of_life_cycle(),
                               faults_of_loaders(),
                               faults_of_low_precision(),
                               faults_of_machines(),
                               faults_of_masks(),
                               faults_of_not_numbers(),
                               faults_of_offsets(),
                               faults_of_prompt_caches(),
                               faults_of_rank_ends(),
                               faults_of_rank_graph(),
                               faults_of_rendezvous(),
                               faults_of_rotations(),
                               faults_of_routes(),
                               faults_of_same_data(),
                               faults_of_scores(),
                               faults_of_selected_backwards(),
                               faults_of_selected_lists(),
                               faults_of_streams(),
                               faults_of_token_weighting(),
                               faults_of_transports(),
                               faults_of_unstable_results(),
                               faults_of_unwatched(),
                               faults_of_updates(),
                               faults_of_weights(),
                               faults_of_wrong_gradients(),
                               faults_of_wrong_reductions()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(
        all.begin(), all.end(), [](const Fault& a, const Fault& b) { return a.name < b.name; });
    return all;
  }();
  return kFaults;
}

const Fault& fault_named(const std::string& name) {
  for (const Fault& fault : all_faults()) {
    if (fault.name == name) {
      return fault;
    }
  }
  throw nsa::Error("fault: found '" + name + "', which this worker does not have");
}

}  // namespace harness
