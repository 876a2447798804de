// The rows of evidence without their types: by the name of their kind, as JSON.
#pragma once

#include <string_view>

#include "harness/evidence/evidence.h"

namespace fixtures {

// Calls visit(kind, rows) for each kind of evidence, in one order. What was rejected is a kind too.
template <typename Evidence, typename Visit>
void each_kind(Evidence& evidence, const Visit& visit) {
  using E = harness::Evidence;
  const auto all = [&](auto... members) {
    const auto one = [&](auto member) {
      using Row = std::remove_cvref_t<decltype((evidence.*member).front().row)>;
      const bool rejected = static_cast<const void*>(&(evidence.*member)) == &evidence.rejected;
      visit(std::string_view(rejected ? harness::kRejectedKind : Row::kKind), evidence.*member);
    };
    (one(members), ...);
  };
  all(&E::hellos,
      &E::phases,
      &E::heartbeats,
      &E::samples,
      &E::gradients,
      &E::buckets,
      &E::collectives,
      &E::collectives_done,
      &E::exact_sums,
      &E::reduced_again,
      &E::parameters,
      &E::digests,
      &E::tensor_digests,
      &E::stretches,
      &E::batches,
      &E::routes,
      &E::refusals,
      &E::route_choices,
      &E::kernels,
      &E::exposures,
      &E::block_choices,
      &E::dropout_masks,
      &E::nan_births,
      &E::card_looks,
      &E::mutations,
      &E::gates,
      &E::updates,
      &E::recomputes,
      &E::in_place,
      &E::states,
      &E::snapshots,
      &E::reads,
      &E::artefacts,
      &E::errors,
      &E::faults_fired,
      &E::facts,
      &E::done,
      &E::other_levels,
      &E::started,
      &E::exited,
      &E::observations,
      &E::suspects,
      &E::stopped,
      &E::relaunches,
      &E::rejected);
}

}  // namespace fixtures
