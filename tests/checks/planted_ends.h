// Defects of the way it ran: routes and the ends of processes.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

inline void add_route(std::vector<Planted>& list) {
  const std::string check = "ran_route";
  const auto change = [](const std::string& seam, int layer, auto what) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.routes) {
        if (row.row.seam == seam && (layer < 0 || row.row.layer == layer) && row.process == 1)
          what(row.row);
      }
    };
  };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back(
      {check,
       "another one ran",
       Verdict::fail,
       "ROUTE.MISMATCH",
       R"({"op":"attend_sel","layers":[0,1,2],"ranks":[1]})",
       change("attend_sel", -1, [](harness::RouteUse& row) { row.effective = "masked"; })});
  list.push_back({check,
                  "never ran in a layer",
                  Verdict::fail,
                  "ROUTE.MISMATCH",
                  R"({"op":"gate","layers":[1],"ranks":[1]})",
                  change("gate", 1, [](harness::RouteUse& row) { row.forward = 0; })});
  list.push_back({check,
                  "no optimiser",
                  Verdict::fail,
                  "ROUTE.MISMATCH",
                  R"({"op":"optimizer"})",
                  change("optimizer", -1, [](harness::RouteUse& row) { row.forward = 0; })});
  list.push_back({check,
                  "no gradient came back",
                  Verdict::fail,
                  "ROUTE.MISMATCH",
                  R"({"op":"attend_cmp","phase":"backward","layers":[2]})",
                  change("attend_cmp", 2, [](harness::RouteUse& row) { row.backward = 0; })});
  list.push_back({check,
                  "two ran",
                  Verdict::fail,
                  "ROUTE.MISMATCH",
                  R"({"op":"score","layers":[0]})",
                  [](Healthy& h) {
                    put(h.evidence.routes, 0, harness::RouteUse{"score", 0, "bf16", 1, 0});
                  }});
  list.push_back({check, "no rows", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.routes.clear();
                  }});
  list.push_back(
      {check, "a rank that ended early", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         remove_if(h.evidence.routes,
                   [](const auto& row) { return row.process == 1 && row.row.seam == "optimizer"; });
         h.not_done(1);
       }});
}

inline harness::WorkerError error_of(const std::string& type, const std::string& what) {
  harness::WorkerError error;
  error.type = type;
  error.what = what;
  error.phase = "forward";
  error.step = 1;
  return error;
}

inline std::function<void(Healthy&)> raises(int rank, harness::WorkerError error) {
  return [=](Healthy& h) {
    h.ends(rank, 7, 0, false, 500);
    put(h.evidence.errors, rank, error, 490);
  };
}

inline void add_ends(std::vector<Planted>& list) {
  const std::string check = "process_clean";
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "killed",
                  Verdict::fail,
                  "CRASH.SIGNAL",
                  R"({"ranks":[1],"detail":{"signal":"SIGKILL"}})",
                  [](Healthy& h) { h.ends(1, 0, SIGKILL, false); }});
  list.push_back(
      {check, "killed for memory", Verdict::fail, "OOM.HOST", R"({"ranks":[0]})", [](Healthy& h) {
         h.ends(0, 0, SIGKILL, false);
         for (auto& row : h.evidence.exited) row.row.out_of_memory = row.row.process_ended == 0;
       }});
  list.push_back({check,
                  "bad_alloc",
                  Verdict::fail,
                  "OOM.HOST",
                  R"({"ranks":[1],"phase":"forward"})",
                  raises(1, error_of("std::bad_alloc", "std::bad_alloc"))});
  list.push_back({check,
                  "device memory",
                  Verdict::fail,
                  "OOM.DEVICE",
                  R"({"ranks":[0]})",
                  raises(0,
                         error_of("c10::OutOfMemoryError",
                                  "CUDA out of memory. Tried to allocate 2.00 GiB"))});
  list.push_back({check,
                  "device error",
                  Verdict::fail,
                  "CRASH.DEVICE",
                  R"({"ranks":[0],"step":1})",
                  raises(0,
                         error_of("c10::AcceleratorError",
                                  "CUDA error: an illegal memory access was encountered"))});
  list.push_back({check,
                  "an exception of its own",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[1],"phase":"forward","step":1})",
                  raises(1, error_of("std::runtime_error", "boom"))});
  list.push_back({check,
                  "ended early without saying so",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[0]})",
                  [](Healthy& h) { h.not_done(0); }});
  list.push_back({check,
                  "exit 7 without a word",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[0]})",
                  [](Healthy& h) { h.ends(0, 7, 0, false); }});
  list.push_back({check,
                  "ended by the controller",
                  Verdict::inconclusive,
                  "CRASH.SIGNAL",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    h.ends(0, 0, SIGTERM, true);
                    h.ends(1, 0, SIGTERM, true);
                  }});
  list.push_back({check, "lived again after a kill", Verdict::pass, "", "{}", &lived_before});
  list.push_back({check,
                  "killed in its second life by somebody else",
                  Verdict::fail,
                  "CRASH.SIGNAL",
                  R"({"ranks":[1],"phase":"forward","detail":{"signal":"SIGKILL"}})",
                  [](Healthy& h) {
                    h.ends(1, 0, SIGKILL, false);
                    lived_before(h);
                  }});
  list.push_back(
      {check, "no end of the second life known", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         h.evidence.exited.clear();
         h.evidence.done.clear();
         lived_before(h);
       }});
  list.push_back({check, "no end known", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.exited.clear();
                  }});
  list.push_back({check, "the twin failed", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.ends(kTwin, 3, 0, false);
                  }});
}

}  // namespace fixtures
