// Which steps of a training of the user's own were looked at, and which a rank left out.
#pragma once

#include "harness/evidence/evidence.h"
#include "tests/checks/planted_case.h"
#include "tests/checks/planted_command.h"

namespace fixtures {

// Ranks with the two lines: each step has its phases and its loss.
inline void as_watched(Healthy& h) {
  as_command(h);
  const std::int64_t steps = h.evidence.the_case.scenario.training.steps;
  std::erase_if(h.evidence.samples, [](const auto& row) { return row.row.metric == "loss"; });
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    for (std::int64_t step = 1; step <= steps; ++step) {
      put(h.evidence.phases, rank, harness::Phase{"backward", step}, 100 * step + 10);
      put(h.evidence.phases, rank, harness::Phase{"optimizer", step}, 100 * step + 20);
      put(h.evidence.samples, rank, harness::Sample{"loss", step, 2.5}, 100 * step + 30);
    }
  }
}

inline void without_update(Healthy& h, int rank, std::int64_t step) {
  std::erase_if(h.evidence.phases, [&](const auto& row) {
    return row.process == rank && row.row.step == step && row.row.phase == "optimizer";
  });
}

template <typename Row>
void without_step(std::vector<From<Row>>& rows, int rank, std::int64_t step) {
  std::erase_if(rows, [&](const auto& row) { return row.process == rank && row.row.step == step; });
}

// The others take the step, and the rank has nothing of its own in it.
inline void sits_out(Healthy& h, int rank, std::int64_t step) {
  without_step(h.evidence.gradients, rank, step);
  without_step(h.evidence.parameters, rank, step);
  without_step(h.evidence.batches, rank, step);
  put(h.evidence.facts, rank, harness::Fact{harness::kSatOutFact, std::to_string(step)});
}

inline void add_step_scope(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    const std::string code = verdict == Verdict::fail ? "OPT.SKIPPED" : "";
    const auto make = [=](Healthy& h) {
      as_watched(h);
      spoil(h);
    };
    list.push_back({"steps_agree", name, verdict, code, site, make, 2, 4});
  };
  add("every step is there", Verdict::pass, "{}", [](Healthy&) {});
  add("a step that no rank takes", Verdict::pass, "{}", [](Healthy& h) {
    for (const int rank : {0, 1}) without_update(h, rank, 2);
  });
  add("a rank leaves a step out", Verdict::fail, R"({"ranks":[1],"step":2})", [](Healthy& h) {
    without_update(h, 1, 2);
  });
  add("a rank ends well one step early",
      Verdict::fail,
      R"({"ranks":[0],"step":4})",
      [](Healthy& h) {
        std::erase_if(h.evidence.phases,
                      [](const auto& row) { return row.process == 0 && row.row.step == 4; });
      });
  add("ranks that join take fewer steps by right", Verdict::pass, "{}", [](Healthy& h) {
    std::erase_if(h.evidence.phases,
                  [](const auto& row) { return row.process == 0 && row.row.step == 4; });
    put(h.evidence.facts, 1, harness::Fact{harness::kJoinsFact, ""});
  });
  add("a rank that failed comes to no further step", Verdict::pass, "{}", [](Healthy& h) {
    std::erase_if(h.evidence.phases,
                  [](const auto& row) { return row.process == 0 && row.row.step == 4; });
    h.ends(0, 1, 0, false, 900);
  });
  add("gradients of one step were not recorded", Verdict::inconclusive, "{}", [](Healthy& h) {
    without_step(h.evidence.gradients, 1, 3);
  });
  add("weights of one step were not recorded", Verdict::inconclusive, "{}", [](Healthy& h) {
    without_step(h.evidence.parameters, 0, 4);
  });
  add("the loss of one step was not seen", Verdict::inconclusive, "{}", [](Healthy& h) {
    without_step(h.evidence.samples, 1, 2);
  });
  add("no gradient is reduced any more", Verdict::inconclusive, "{}", [](Healthy& h) {
    for (const int rank : {0, 1}) without_step(h.evidence.collectives, rank, 3);
  });
  add("a part of the model cannot be judged", Verdict::inconclusive, "{}", [](Healthy& h) {
    put(h.evidence.facts, 0, harness::Fact{harness::kNotJudgedFact, "3 parameters, because ..."});
  });
  add("lines of the record were lost", Verdict::inconclusive, "{}", [](Healthy& h) {
    put(h.evidence.facts, 1, harness::Fact{harness::kLinesLostFact, "17"});
  });
  add("a rank that has joined leaves out what the others go on with",
      Verdict::pass,
      "{}",
      [](Healthy& h) {
        sits_out(h, 0, 2);
        without_step(h.evidence.phases, 0, 2);
        put(h.evidence.facts, 1, harness::Fact{harness::kJoinsFact, ""});
      });
  add("a rank reports no step", Verdict::inconclusive, "{}", [](Healthy& h) {
    std::erase_if(h.evidence.phases, [](const auto& row) { return row.process == 1; });
    h.ends(1, 1, 0, false, 900);
  });
  add("nothing was recorded", Verdict::inconclusive, "{}", [](Healthy& h) {
    h.evidence.phases.clear();
    h.evidence.gradients.clear();
    h.evidence.parameters.clear();
    h.evidence.samples.clear();
    h.evidence.collectives.clear();
  });
  // What has no rows by right is not missing, and not different.
  for (const char* check :
       {"gradients_agree", "gradients_arrived", "parameters_agree", "data_distinct"}) {
    for (const bool joined : {true, false}) {
      list.push_back(
          {check,
           joined ? "a rank that has joined has no rows" : "a rank has no rows of a step",
           joined ? Verdict::pass : Verdict::inconclusive,
           "",
           "{}",
           [=](Healthy& h) {
             as_watched(h);
             sits_out(h, 0, 2);
             if (!joined) h.evidence.facts.pop_back();
           },
           2,
           4});
    }
  }
  // Nothing says that another rank holds the same, so no reduction is expected either.
  list.push_back(
      {"gradients_agree",
       "parts of which each rank alone is known to hold its own",
       Verdict::pass,
       "",
       "{}",
       [](Healthy& h) {
         as_watched(h);
         for (auto& row : h.evidence.gradients) {
           if (row.process >= 0) row.row.piece = "rank " + std::to_string(row.process);
         }
         std::erase_if(h.evidence.collectives,
                       [](const auto& row) { return row.row.op == "allreduce"; });
         for (int rank = 0; rank < 2; ++rank) {
           put(h.evidence.collectives,
               rank,
               harness::Collective{90, 1, "forward", "allreduce", "max", "Float", 4, "tp"},
               90);
         }
       }});
}

}  // namespace fixtures
