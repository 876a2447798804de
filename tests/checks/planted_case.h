// One defect that is planted into healthy evidence, and what a check must say of it.
#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/checks/fixtures.h"

namespace fixtures {

struct Planted {
  std::string check;
  std::string name;
  harness::Verdict verdict;
  std::string code;  // of the first finding; "" for none
  std::string site;  // JSON, what the site must at least say
  std::function<void(Healthy&)> spoil;
  int ranks = 2;
  int steps = 1;
  std::string kind = "training";
};

using harness::Gradient;
using harness::Verdict;

// Adds defects that one check judges in runs of one size.
struct PlantedAdder {
  std::vector<Planted>& list;
  std::string check;
  int ranks = 2;
  int steps = 1;
  std::string kind = "training";

  void operator()(const std::string& name,
                  Verdict verdict,
                  const std::string& code,
                  const std::string& site,
                  const std::function<void(Healthy&)>& spoil) const {
    list.push_back({check, name, verdict, code, site, spoil, ranks, steps, kind});
  }
};

inline const auto kLeaveAsItIs = [](Healthy&) {};

template <typename Rows, typename Which>
void remove_if(Rows& rows, Which which) {
  std::erase_if(rows, which);
}

// A life before this one, which the controller ended because the scenario asked for it: ranks waited in collective 3 then,
// and had done the ones before.
inline void lived_before(Healthy& h) {
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    put(h.evidence.started, kController, harness::Started{rank, 50 + rank}, -90);
    put(h.evidence.phases, rank, harness::Phase{"save", 1}, -50);
    for (std::int64_t sequence = 0; sequence < 4; ++sequence) {
      put(h.evidence.collectives,
          rank,
          harness::Collective{sequence, 1, "backward", "allreduce", "sum", "Float", 4, "default"},
          -70);
      if (sequence == 3) continue;
      put(h.evidence.collectives_done, rank, harness::CollectiveDone{sequence, "default"}, -60);
    }
    harness::Exited exited;
    exited.process_ended = rank;
    exited.signal = SIGKILL;
    exited.by_controller = true;
    put(h.evidence.exited, kController, exited, -20);
  }
  put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed in step 1"}, -20);
}

}  // namespace fixtures
