// Levels of observation: what is left to judge of a case that is watched less closely, and what levels_agree says of two levels.
#pragma once

#include "harness/checks/process/level_course.h"
#include "tests/checks/planted_progress.h"

namespace fixtures {

// The case is at level `own`; at level `other` it showed the same.
inline harness::OtherLevel& as_at(Healthy& h, int own, int other) {
  h.evidence.the_case.scenario.observe = own;
  harness::OtherLevel shown = harness::checks::shown_at_level(h.evidence).value();
  shown.observe = other;
  put(h.evidence.other_levels, kController, shown, 1);
  return h.evidence.other_levels.back().row;
}

// What a level leaves out of the record.
inline void record_events_only(Healthy& h) {
  h.evidence.the_case.scenario.observe = harness::kWatchEvents;
  h.without_twin();
  const std::int64_t last = h.evidence.the_case.scenario.training.steps;
  remove_if(h.evidence.parameters, [=](const auto& row) { return row.row.step < last; });
  h.evidence.artefacts.clear();
  h.evidence.batches.clear();
  h.evidence.updates.clear();
  for (auto& row : h.evidence.gradients) {
    row.row.state = harness::kUnread;
    row.row.l2 = row.row.absmax = 0.0;
    row.row.hash_before = row.row.hash_after = "";
  }
}

inline void record_processes_only(Healthy& h) {
  record_events_only(h);
  h.evidence.the_case.scenario.observe = harness::kWatchProcesses;
  h.evidence.gradients.clear();
  h.evidence.buckets.clear();
  h.evidence.collectives.clear();
  h.evidence.collectives_done.clear();
  h.evidence.samples.clear();
  h.evidence.routes.clear();
}

inline void add_compared_levels(std::vector<Planted>& list) {
  const PlantedAdder add{list, "levels_agree"};
  add("the same at both levels", Verdict::pass, "", "{}", [](Healthy& h) { as_at(h, 1, 2); });
  add("a hang at the lower level",
      Verdict::fail,
      "OBSERVER.EFFECT",
      R"({"ranks":[0,1],"detail":{"levels":[0,2]}})",
      [](Healthy& h) {
        as_at(h, 0, 2);
        stopped(h, "still", "backward");
      });
  add("a rank that fails at the higher level",
      Verdict::fail,
      "OBSERVER.EFFECT",
      R"({"ranks":[1],"detail":{"levels":[0,2]}})",
      [](Healthy& h) {
        harness::OtherLevel& other = as_at(h, 2, 0);
        h.ends(1, 1, 0, false);
        other.end = "well";
      });
  add("another loss",
      Verdict::fail,
      "OBSERVER.EFFECT",
      R"({"ranks":[1],"step":1,"detail":{"levels":[1,2]}})",
      [](Healthy& h) {
        as_at(h, 1, 2).losses = {"0 1 5.5", "1 1 6.5000000000000009"};
      });
  add("another state",
      Verdict::fail,
      "OBSERVER.EFFECT",
      R"({"ranks":[1],"step":1})",
      [](Healthy& h) { as_at(h, 0, 1).parameters.back() = "1 otherwise"; });
  add("within what a device's order of sums does", Verdict::pass, "", "{}", [](Healthy& h) {
    h.evidence.the_case.scenario.parallel.device = nsa::Device::cuda;
    harness::OtherLevel& other = as_at(h, 1, 2);
    other.losses = {"0 1 5.5001", "1 1 6.5"};
    other.parameters.back() = "1 otherwise";
  });
  add("no other level", Verdict::inconclusive, "", "{}", kLeaveAsItIs);
  add("no losses of one level", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    as_at(h, 1, 2).losses.clear();
  });
  add("time over at one level", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    as_at(h, 1, 2).end = "budget";
  });
  add("no end of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    as_at(h, 1, 2);
    remove_if(h.evidence.exited, [](const auto& row) { return row.row.process_ended == 1; });
  });
}

inline void add_less_closely(std::vector<Planted>& list) {
  list.push_back({"gradients_arrived",
                  "values that nobody looked at",
                  Verdict::pass,
                  "",
                  "{}",
                  record_events_only});
  list.push_back({"gradients_arrived",
                  "a gradient that never came, watched less closely",
                  Verdict::fail,
                  "GRAD.MISSING",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    record_events_only(h);
                    for (auto& row : h.evidence.gradients) {
                      if (row.row.index != 3) continue;
                      row.row.ready_count = 0;
                      row.row.state = "none";
                    }
                  }});
  const PlantedAdder state{list, "parameters_agree", 2, 3};
  state("the last state alone", Verdict::pass, "", "{}", record_processes_only);
  state("the last states differ", Verdict::fail, "STATE.DIVERGED", R"({"step":3})", [](Healthy& h) {
    record_processes_only(h);
    h.evidence.parameters.front().row.hash = "another";
  });
  const PlantedAdder finite{list, "finite", 2, 2};
  finite("losses and norms alone", Verdict::pass, "", "{}", record_events_only);
  finite("a norm that is not finite",
         Verdict::fail,
         "NAN.ORIGIN",
         R"({"op":"grad_norm","step":2,"ranks":[1]})",
         [](Healthy& h) {
           record_events_only(h);
           for (auto& row : h.evidence.samples) {
             const bool is_it = row.process == 1 && row.row.step == 2;
             if (is_it && row.row.metric == "grad_norm") row.row.value = NAN;
           }
         });
  finite("no norms", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    record_events_only(h);
    remove_if(h.evidence.samples, [](const auto& row) { return row.row.metric == "grad_norm"; });
  });
  finite("a skipped step that overflowed", Verdict::pass, "", "{}", [](Healthy& h) {
    record_events_only(h);
    h.evidence.the_case.scenario.training.precision = nsa::Precision::fp16;
    for (auto& row : h.evidence.samples) {
      if (row.row.step == 2 && row.row.metric == "grad_norm") row.row.value = INFINITY;
    }
    for (int rank = 0; rank < 2; ++rank) {
      put(h.evidence.samples, rank, harness::Sample{"skipped_steps", 1, 0.0});
      put(h.evidence.samples, rank, harness::Sample{"skipped_steps", 2, 1.0});
    }
  });
  // Which rank waits for its peers is told by the limit that a library of communication sets.
  const PlantedAdder progress{list, "progress"};
  const auto stand = [](Healthy& h, bool both_wait) {
    record_processes_only(h);
    stopped(h, "still", "backward");
    look_at(h, 0, kInLock, kInLock);
    look_at(h, 1, kInLock, kInLock);
    for (auto& row : h.evidence.observations) {
      if (row.row.process_observed == 1 && !both_wait) continue;
      row.row.threads.front().timed = true;
      row.row.threads.front().left_ms = 590'000;
    }
  };
  progress("one rank stands, watched from outside",
           Verdict::fail,
           "HANG.HOST",
           R"({"ranks":[1]})",
           [=](Healthy& h) { stand(h, false); });
  progress("all wait, watched from outside",
           Verdict::fail,
           "HANG.COLLECTIVE",
           R"({"ranks":[0,1]})",
           [=](Healthy& h) { stand(h, true); });
}

inline void add_levels(std::vector<Planted>& list) {
  add_compared_levels(list);
  add_less_closely(list);
}

}  // namespace fixtures
