// One rank without peers: the model of the case, its fault in the seams and the watch around them, and what is recorded at
// the end. What kinds that do not train have in common.
#pragma once

#include <functional>

#include "harness/kinds/model_parts.h"
#include "harness/worker/watch/seam_watch.h"

namespace harness {

class LoneRank {
 public:
  static constexpr std::int64_t kStep = 1;  // everything belongs to the one step there is

  explicit LoneRank(Session& session);

  Session& session;
  const Scenario& scenario;
  nsa::Routes routes;
  nsa::NsaLm model;
  SeamWatch watch;

  [[nodiscard]] int layers() const { return static_cast<int>(scenario.model.n_layers); }
  // Positions in the share attention.prefix of the sequence: at least one, and one left after them where there is room.
  [[nodiscard]] std::int64_t prefix_length() const;

  // Puts in the fault and the watch, does `work`, and records routes, the fault's count, watched calls and memory, also
  // when `work` throws.
  void run(const std::function<void()>& work);
};

}  // namespace harness
