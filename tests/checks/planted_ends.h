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
                  "autocast that is never on",
                  Verdict::fail,
                  "ROUTE.MISMATCH",
                  R"({"op":"project","layers":[0,1,2],"ranks":[0,1]})",
                  [](Healthy& h) {
                    h.evidence.the_case.scenario.training.precision = nsa::Precision::bf16_autocast;
                  }});
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
  list.push_back(
      {check,
       "refused before anything ran",
       Verdict::fail,
       "ROUTE.REFUSED",
       R"({"op":"attend_win","ranks":[0,1],"detail":{"requested":"fa2","reason":"device cpu"}})",
       [](Healthy& h) {
         h.evidence.routes.clear();
         for (const int rank : {0, 1}) {
           h.not_done(rank);
           put(h.evidence.refusals, rank, harness::Refusal{"attend_win", -1, "fa2", "device cpu"});
         }
       }});
  list.push_back(
      {check,
       "refused in a layer",
       Verdict::fail,
       "ROUTE.REFUSED",
       R"({"op":"attend_cmp","ranks":[1],"layers":[2]})",
       [](Healthy& h) {
         h.not_done(1);
         put(h.evidence.refusals, 1, harness::Refusal{"attend_cmp", 2, "fa2", "dtype Float"});
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

// What the device's own trace says of a case of three layers whose compressed and window branch ask for FlashAttention-2.
inline void trace_kernels(Healthy& h, std::int64_t forward, std::int64_t backward) {
  h.evidence.the_case.scenario.attention.trace_kernels = true;
  put(h.evidence.kernels, 0, harness::KernelRuns{1, "at::native::reduce_kernel", 40});
  const auto ran = [&](const char* name, std::int64_t runs) {
    if (runs > 0) put(h.evidence.kernels, 0, harness::KernelRuns{1, name, runs});
  };
  ran("pytorch_flash::flash_fwd_kernel", forward);
  ran("pytorch_flash::flash_bwd_dot_do_o_kernel", backward);
  ran("pytorch_flash::flash_bwd_convert_dq_kernel", backward);
}

inline void ask_for(Healthy& h, const std::string& seam, const std::string& name) {
  h.evidence.the_case.scenario.route[seam] = name;
  for (auto& row : h.evidence.routes) {
    if (row.row.seam == seam) row.row.effective = name;
  }
}

// The Reducer reduces a map of used parameters: in every step where it looks for unused ones, in the first of a static graph.
inline void add_reducer_options(std::vector<Planted>& list) {
  const auto run_with = [](bool static_graph, bool find_unused, std::vector<std::int64_t> mapped) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.parallel.static_graph = static_graph;
      h.evidence.the_case.scenario.parallel.find_unused = find_unused;
      for (const int rank : {0, 1}) {
        for (const std::int64_t step : mapped) {
          put(h.evidence.collectives,
              rank,
              harness::Collective{90, step, "backward", "allreduce", "sum", "Int", 21, "default"});
        }
      }
    };
  };
  const auto add = [&](const std::string& name, const std::string& site, auto spoil) {
    const bool right = site.empty();
    list.push_back({"ran_route",
                    name,
                    right ? Verdict::pass : Verdict::fail,
                    right ? "" : "ROUTE.MISMATCH",
                    right ? "{}" : site,
                    spoil,
                    2,
                    3});
  };
  add("a map in every step, as find_unused makes it", "", run_with(false, true, {1, 2, 3}));
  add("a map in the first step, as a static graph makes it", "", run_with(true, false, {1}));
  add("a static graph that looks for unused parameters, which it need not",
      "",
      run_with(true, true, {1}));
  add("find_unused was asked for, and no map was reduced",
      R"({"op":"grad_sync","ranks":[0,1],"step":1,"detail":{"find_unused":true,"static_graph":false}})",
      run_with(false, true, {}));
  add("find_unused was not asked for, and maps were reduced",
      R"({"op":"grad_sync","ranks":[0,1],"step":1,"detail":{"find_unused":false,"static_graph":false}})",
      run_with(false, false, {1, 2, 3}));
  add("a static graph was asked for, and a dynamic one looked for unused parameters",
      R"({"op":"grad_sync","ranks":[0,1],"step":2,"detail":{"find_unused":true,"static_graph":true}})",
      run_with(true, true, {1, 2, 3}));
  const auto views = [](bool asked, const std::string& told) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.parallel.gradient_as_bucket_view = asked;
      remove_if(h.evidence.facts,
                [](const auto& row) { return row.row.name == "gradients_in_buckets"; });
      for (const int rank : {0, 1}) {
        put(h.evidence.facts, rank, harness::Fact{"gradients_in_buckets", told});
      }
    };
  };
  add("gradients in memory of their own", "", views(false, "0 of 21"));
  add("gradients that are alone in their buckets", "", views(false, "0 of 0"));
  list.push_back({"ran_route",
                  "a rank that does not tell where its gradients lie",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    remove_if(h.evidence.facts, [](const auto& row) {
                      return row.process == 1 && row.row.name == "gradients_in_buckets";
                    });
                  },
                  2,
                  3});
  add("where gradients lie is not told where values are not watched", "", [](Healthy& h) {
    h.evidence.the_case.scenario.observe = harness::kWatchEvents;
    remove_if(h.evidence.facts,
              [](const auto& row) { return row.row.name == "gradients_in_buckets"; });
  });
  add("gradients that are views of buckets, as asked", "", views(true, "21 of 21"));
  add("gradients are views of buckets, and nobody asked",
      R"({"op":"grad_sync","ranks":[0,1],"detail":{"gradient_as_bucket_view":false}})",
      views(false, "21 of 21"));
  add("views of buckets were asked for, and gradients are none",
      R"({"op":"grad_sync","ranks":[0,1],"detail":{"gradient_as_bucket_view":true}})",
      views(true, "0 of 21"));
  add("parameters are not broadcast on one rank",
      R"({"op":"broadcast","ranks":[1]})",
      [](Healthy& h) {
        for (auto& row : h.evidence.collectives) {
          if (row.process == 1 && row.row.op == "broadcast") row.row.dtype = "Long";
        }
      });
  add("a static graph was asked for and is none",
      R"({"op":"grad_sync","ranks":[0,1],"step":1,"detail":{"find_unused":false,"static_graph":true}})",
      run_with(true, false, {}));
}

inline void add_kernels(std::vector<Planted>& list) {
  const std::string check = "ran_route";
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       std::function<void(Healthy&)> spoil) {
    list.push_back({check,
                    name,
                    verdict,
                    verdict == Verdict::fail ? "ROUTE.MISMATCH" : "",
                    site,
                    std::move(spoil),
                    1});
  };
  add("no kernels of FlashAttention-2, none asked for", Verdict::pass, "{}", [](Healthy& h) {
    trace_kernels(h, 0, 0);
  });
  add("kernels of FlashAttention-2 as asked for", Verdict::pass, "{}", [](Healthy& h) {
    ask_for(h, "attend_cmp", "fa2");
    ask_for(h, "attend_win", "fa2_varlen");
    trace_kernels(h, 6, 6);
  });
  add("an empty trace", Verdict::inconclusive, "{}", [](Healthy& h) {
    h.evidence.the_case.scenario.attention.trace_kernels = true;
  });
  add("nobody asked for FlashAttention-2",
      Verdict::fail,
      R"({"detail":{"kernel":"flash_fwd","runs":3,"wanted":0}})",
      [](Healthy& h) { trace_kernels(h, 3, 0); });
  add("counted itself, and no kernel ran",
      Verdict::fail,
      R"({"op":"attend_win","detail":{"kernel":"flash_fwd","runs":0,"wanted":3}})",
      [](Healthy& h) {
        ask_for(h, "attend_win", "fa2");
        trace_kernels(h, 0, 0);
      });
  add("one of two branches never launched its kernel",
      Verdict::fail,
      R"({"detail":{"kernel":"flash_fwd","runs":3,"wanted":6}})",
      [](Healthy& h) {
        ask_for(h, "attend_cmp", "fa2");
        ask_for(h, "attend_win", "fa2");
        trace_kernels(h, 3, 6);
      });
  add("another backward",
      Verdict::fail,
      R"({"op":"attend_win","detail":{"kernel":"flash_bwd","runs":0,"wanted":3}})",
      [](Healthy& h) {
        ask_for(h, "attend_win", "fa2");
        trace_kernels(h, 3, 0);
      });
  add("no compressed token: nothing to launch", Verdict::pass, "{}", [](Healthy& h) {
    ask_for(h, "attend_cmp", "fa2");
    h.evidence.the_case.scenario.training.seq_len = h.evidence.the_case.scenario.model.l - 1;
    trace_kernels(h, 0, 0);
  });
}

// A whole layer by `name`: the layer's other seams leave no rows, but those of `beside` in layer 1.
inline void compute_whole_layers(Healthy& h,
                                 const std::string& name,
                                 const std::string& beside = "") {
  ask_for(h, "attention", name);
  const std::set<std::string> outside = {
      "attention", "grad_sync", "data", "optimizer", "checkpoint"};
  remove_if(h.evidence.routes, [&](const auto& row) {
    const bool stays =
        outside.count(row.row.seam) > 0 || (row.row.seam == beside && row.row.layer == 1);
    return !stays;
  });
}

inline void add_whole_layers(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       std::function<void(Healthy&)> spoil) {
    const char* code = verdict == Verdict::fail ? "ROUTE.MISMATCH" : "";
    list.push_back({"ran_route", name, verdict, code, site, std::move(spoil), 1});
  };
  add("whole layers as asked for", Verdict::pass, "{}", [](Healthy& h) {
    compute_whole_layers(h, "cuda");
  });
  add("a seam of the layer ran beside a whole layer",
      Verdict::fail,
      R"({"op":"attention","layers":[1],"detail":{"requested":"cuda","effective":"reference"}})",
      [](Healthy& h) { compute_whole_layers(h, "cuda", "attend_sel"); });
  add("whole layers counted themselves, and no kernel of theirs ran",
      Verdict::fail,
      R"({"op":"attention","detail":{"kernel":"nsa::kernels::attend_forward","runs":0,"wanted":3}})",
      [](Healthy& h) {
        compute_whole_layers(h, "cuda_mma");
        trace_kernels(h, 0, 0);
      });
  add("another norm than the one asked for",
      Verdict::fail,
      R"({"op":"norm","layers":[2],"detail":{"requested":"cuda","effective":"reference"}})",
      [](Healthy& h) {
        h.evidence.the_case.scenario.route["norm"] = "cuda";
        for (const int rank : {0, 1}) {
          for (const int layer : {-1, 0, 1, 2}) {
            const char* ran = layer == 2 ? "reference" : "cuda";
            put(h.evidence.routes, rank, harness::RouteUse{"norm", layer, ran, 1, 1});
          }
        }
      });
  for (const bool ran : {true, false}) {
    add(ran ? "sums by hand" : "sums by hand that were never made",
        ran ? Verdict::pass : Verdict::fail,
        ran ? "{}" : R"({"op":"transport","detail":{"requested":"by_hand"}})",
        [ran](Healthy& h) {
          h.evidence.the_case.scenario.route["transport"] = "by_hand";
          for (const int rank : {0, 1}) {
            if (ran)
              put(h.evidence.routes, rank, harness::RouteUse{"transport", -1, "by_hand", 5, 0});
          }
        });
  }
}

// `auto` for the norm: a card's kernels refused, and `taken` is what there is a record of; `ran` counted itself.
inline void ask_for_automatic_norm(Healthy& h, const std::string& taken, const std::string& ran) {
  h.evidence.the_case.scenario.route["norm"] = "auto";
  for (const int rank : {0, 1}) {
    if (!taken.empty()) {
      put(h.evidence.route_choices, rank, harness::RouteChoice{"norm", "cuda", "dtype Float"});
      put(h.evidence.route_choices, rank, harness::RouteChoice{"norm", taken, ""});
    }
    for (const int layer : {-1, 0, 1, 2}) {
      put(h.evidence.routes, rank, harness::RouteUse{"norm", layer, ran, 1, 1});
    }
  }
}

inline void add_automatic(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       std::function<void(Healthy&)> spoil) {
    const char* code = verdict == Verdict::fail ? "ROUTE.MISMATCH" : "";
    list.push_back({"ran_route", name, verdict, code, site, std::move(spoil)});
  };
  add("what auto took ran", Verdict::pass, "{}", [](Healthy& h) {
    ask_for_automatic_norm(h, "fused", "fused");
  });
  add("another one than auto took",
      Verdict::fail,
      R"json({"op":"norm","ranks":[0,1],"detail":{"requested":"auto (it took fused)"}})json",
      [](Healthy& h) { ask_for_automatic_norm(h, "fused", "cuda"); });
  add("nobody recorded what auto took", Verdict::inconclusive, "{}", [](Healthy& h) {
    ask_for_automatic_norm(h, "", "fused");
  });
  add("a whole layer that auto took", Verdict::pass, "{}", [](Healthy& h) {
    compute_whole_layers(h, "cuda");
    h.evidence.the_case.scenario.route["attention"] = "auto";
    h.evidence.the_case.scenario.route["attend_sel"] = "auto";  // never called
    for (const int rank : {0, 1}) {
      put(h.evidence.route_choices, rank, harness::RouteChoice{"attention", "cuda", ""});
    }
  });
  add("whole layers ran, and nobody recorded that auto took them",
      Verdict::inconclusive,
      "{}",
      [](Healthy& h) {
        compute_whole_layers(h, "cuda");
        h.evidence.the_case.scenario.route["attention"] = "auto";
      });
}

// Four steps, the last two of which shall be launched as a graph.
inline void add_graphs(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       bool asked,
                       std::int64_t launches) {
    const char* code = verdict == Verdict::fail ? "ROUTE.MISMATCH" : "";
    const auto launch = [=](Healthy& h) {
      h.evidence.the_case.scenario.training.cuda_graph = asked;
      if (launches > 0) {
        put(h.evidence.routes, 0, harness::RouteUse{"step", -1, "cuda_graph", launches, 0});
      }
    };
    list.push_back({"ran_route", name, verdict, code, site, launch, 1, 4});
  };
  add("steps launched as a graph", Verdict::pass, "{}", true, 2);
  add("a graph that was asked for and never launched",
      Verdict::fail,
      R"({"op":"step","ranks":[0],"detail":{"runs":0,"wanted":2}})",
      true,
      0);
  add("one step of the host too many",
      Verdict::fail,
      R"({"op":"step","detail":{"runs":1,"wanted":2}})",
      true,
      1);
  add("a graph that nobody asked for",
      Verdict::fail,
      R"({"op":"step","detail":{"runs":2,"wanted":0}})",
      false,
      2);
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
  list.push_back({check,
                  "killed, and somebody was killed for memory",
                  Verdict::fail,
                  "CRASH.SIGNAL",
                  R"({"ranks":[0]})",
                  [](Healthy& h) {
                    h.ends(0, 0, SIGKILL, false);
                    for (auto& row : h.evidence.exited) {
                      row.row.memory_kill_elsewhere = row.row.process_ended == 0;
                    }
                  }});
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
                  "device memory in a seam",
                  Verdict::fail,
                  "OOM.DEVICE",
                  R"({"ranks":[0],"op":"attend_win","layers":[3]})",
                  [](Healthy& h) {
                    put(h.evidence.facts, 0, harness::Fact{"raised_in", R"(["attend_win", 3])"}, 7);
                    put(h.evidence.facts, 1, harness::Fact{"raised_in", R"(["gate", 2])"}, 7);
                    raises(0, error_of("c10::OutOfMemoryError", "CUDA out of memory."))(h);
                  }});
  list.push_back({check,
                  "device error",
                  Verdict::fail,
                  "CRASH.DEVICE",
                  R"({"ranks":[0],"step":1})",
                  raises(0,
                         error_of("c10::AcceleratorError",
                                  "CUDA error: an illegal memory access was encountered"))});
  list.push_back(
      {check, "refused", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         raises(1, error_of("nsa::Refused", "seam attend_win: implementation fa2 cannot"))(h);
         put(h.evidence.refusals, 1, harness::Refusal{"attend_win", -1, "fa2", "device cpu"});
       }});
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
                  "an error of the reducer",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[1],"phase":"forward"})",
                  [](Healthy& h) {
                    harness::WorkerError error = error_of("c10::Error", "not all was reduced");
                    error.frames = {"c10d::Reducer::ensure_prior_reduction_finished()+0x8 (l.so)"};
                    raises(1, error)(h);
                  }});
  list.push_back({check,
                  "words of the device in the program's own exception",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[1]})",
                  [](Healthy& h) {
                    harness::WorkerError error =
                        error_of("std::runtime_error", "no CUDA error, out of memory or timeout");
                    error.frames = {"nsa-harness-worker+0x51c"};
                    raises(1, error)(h);
                  }});
  list.push_back({check,
                  "device memory by the number of its runtime",
                  Verdict::fail,
                  "OOM.DEVICE",
                  R"({"ranks":[0]})",
                  [](Healthy& h) {
                    harness::WorkerError error = error_of("c10::AcceleratorError", "it is full");
                    error.device_code = 2;
                    raises(0, error)(h);
                  }});
  list.push_back({check,
                  "exit 7 after all was done",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[0]})",
                  [](Healthy& h) {
                    h.ends(0, 7, 0, false);
                    put(h.evidence.done, 0, harness::Done{}, 890);
                  }});
  list.push_back(
      {check,
       "a peer was killed in a collective",
       Verdict::fail,
       "CRASH.EXCEPTION",
       R"({"ranks":[0],"phase":"backward","step":1,"sequence":40})",
       [](Healthy& h) {
         for (int rank = 0; rank < 2; ++rank) {
           put(h.evidence.collectives,
               rank,
               harness::Collective{40, 1, "backward", "allreduce", "sum", "Float", 4, "default"},
               480);
         }
         harness::WorkerError error = error_of("gloo::IoException", "nobody there");
         error.bases = {"gloo::Exception", "std::runtime_error", "std::exception"};
         error.phase = "backward";
         raises(0, error)(h);
         h.ends(1, 0, SIGKILL, false);
         for (auto& row : h.evidence.exited) row.row.core_dumped = true;
       }});
  list.push_back({check,
                  "ended by the controller",
                  Verdict::inconclusive,
                  "CRASH.SIGNAL",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    h.ends(0, 0, SIGTERM, true);
                    h.ends(1, 0, SIGTERM, true);
                  }});
  list.push_back({check,
                  "all ranks leave a step out",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[0,1],"step":2})",
                  [](Healthy& h) { h.evidence.the_case.scenario.training.steps = 3; },
                  2,
                  2});
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
