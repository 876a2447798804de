// Everything that is planted into healthy evidence, as a table: which check must say what. A check without a pass, a defect and
// missing evidence in here does not count as tested (planted_test.cpp).
#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "oracles/key_laws.h"
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
};

using harness::Gradient;
using harness::Verdict;

inline const auto kLeaveAsItIs = [](Healthy&) {};

template <typename Rows, typename Which>
void remove_if(Rows& rows, Which which) {
  std::erase_if(rows, which);
}

// ---- gradients ---------------------------------------------------------------------------------------------------------

inline void unreachable(Gradient& row) {
  row.reachable = false;
  row.ready_count = 0;
  row.state = "none";
  row.hash_before.clear();
  row.hash_after.clear();
}

inline void add_arrival(std::vector<Planted>& list) {
  const std::string check = "gradients_arrived";
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back(
      {check,
       "unreachable on every rank",
       Verdict::fail,
       "GRAD.MISSING",
       R"({"layers":[1],"param":"W_K_cmp","branch":"cmp","ranks":[0,1],"step":1})",
       [](Healthy& h) { each_gradient(h.evidence, -1, "blocks.1.attn.W_K_cmp", unreachable); }});
  list.push_back({check,
                  "unreachable on one rank",
                  Verdict::fail,
                  "GRAD.NOT_FINALIZED",
                  R"({"layers":[2],"branch":"sel","ranks":[1],"step":2})",
                  [](Healthy& h) {
                    for (const char* name : {"blocks.2.attn.W_K_sel", "blocks.2.attn.W_V_sel"}) {
                      each_gradient(h.evidence, 1, name, [](Gradient& row) {
                        if (row.step == 2) unreachable(row);
                      });
                    }
                  },
                  2,
                  3});
  list.push_back({check,
                  "one rank without rows got further",
                  Verdict::fail,
                  "GRAD.NOT_FINALIZED",
                  R"({"ranks":[1]})",
                  [](Healthy& h) {
                    each_gradient(h.evidence, 1, "blocks.0.attn.W_V_sel", unreachable);
                    remove_if(h.evidence.gradients,
                              [](const auto& row) { return row.process == 0; });
                    remove_if(h.evidence.collectives, [](const auto& row) {
                      return row.process == 1 && row.row.op == "allreduce" && row.row.sequence > 1;
                    });
                    h.ends(0, 0, SIGTERM, true);
                  }});
  list.push_back({check,
                  "reached but none",
                  Verdict::fail,
                  "GRAD.MISSING",
                  R"({"param":"lm_head","ranks":[0]})",
                  [](Healthy& h) {
                    each_gradient(h.evidence, 0, "lm_head", [](Gradient& row) {
                      row.ready_count = 0;
                      row.state = "none";
                    });
                  }});
  list.push_back({check,
                  "exactly zero",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[0,1,2],"param":"W_K_win","branch":"win"})",
                  [](Healthy& h) {
                    each_gradient(
                        h.evidence, -1, "W_K_win", [](Gradient& row) { row.state = "zero"; });
                  }});
  list.push_back({check,
                  "ready twice",
                  Verdict::fail,
                  "GRAD.DOUBLE_READY",
                  R"({"param":"mlp.fc1","layers":[2],"ranks":[1]})",
                  [](Healthy& h) {
                    each_gradient(h.evidence, 1, "blocks.2.mlp.fc1", [](Gradient& row) {
                      row.ready_count = 2;
                    });
                  }});
  list.push_back({check,
                  "a hook too many",
                  Verdict::fail,
                  "GRAD.DOUBLE_READY",
                  R"({"param":"norm_f"})",
                  [](Healthy& h) {
                    each_gradient(
                        h.evidence, -1, "norm_f", [](Gradient& row) { ++row.hooks_found; });
                  }});
  list.push_back(
      {check,
       "the reducer says twice",
       Verdict::fail,
       "GRAD.DOUBLE_READY",
       R"({"param":"gate.fc1","layers":[1],"ranks":[0]})",
       [](Healthy& h) {
         harness::WorkerError error;
         error.reducer = true;
         error.step = 1;
         error.what =
             "Expected to mark a variable ready only once. Parameter at index 26 with name "
             "blocks.1.attn.gate.fc1.weight has been marked as ready twice.";
         put(h.evidence.errors, 0, error);
       }});
  list.push_back({check,
                  "a hook lost",
                  Verdict::fail,
                  "GRAD.HOOK_LOST",
                  R"({"param":"embed","ranks":[0,1]})",
                  [](Healthy& h) {
                    each_gradient(
                        h.evidence, -1, "embed", [](Gradient& row) { row.hooks_found = 0; });
                  }});
  list.push_back({check, "no row of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    remove_if(h.evidence.gradients,
                              [](const auto& row) { return row.process == 1; });
                  }});
  list.push_back({check, "one row missing", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    remove_if(h.evidence.gradients, [&](const auto& row) {
                      return row.process == 0 && row.row.param == h.params[7];
                    });
                  }});
  list.push_back({check, "no row at all", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.gradients.clear();
                  }});
  list.push_back({check,
                  "one compressed token has no influence by its key",
                  Verdict::pass,
                  "",
                  "{}",
                  [](Healthy& h) {
                    h.evidence.the_case.scenario.training.seq_len = 5;
                    each_gradient(
                        h.evidence, -1, "W_K_cmp", [](Gradient& row) { row.state = "zero"; });
                  }});
}

inline void add_agreement(std::vector<Planted>& list) {
  const std::string check = "gradients_agree";
  const auto other_hash = [](Gradient& row) { row.hash_after = "other"; };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "one rank of four differs",
                  Verdict::fail,
                  "GRAD.NOT_REDUCED",
                  R"({"ranks":[2],"step":1,"param":"norm_f"})",
                  [=](Healthy& h) { each_gradient(h.evidence, 2, "norm_f", other_hash); },
                  4,
                  2});
  list.push_back({check,
                  "two ranks differ",
                  Verdict::fail,
                  "GRAD.NOT_REDUCED",
                  R"({"step":1})",
                  [=](Healthy& h) { each_gradient(h.evidence, 1, "", other_hash); }});
  list.push_back({check,
                  "the reducer did not finish",
                  Verdict::fail,
                  "GRAD.NOT_REDUCED",
                  R"({"step":1,"ranks":[0,1]})",
                  [](Healthy& h) {
                    each_gradient(h.evidence, -1, "", [](Gradient& row) {
                      row.reduced = false;
                      row.hash_after.clear();
                    });
                  }});
  list.push_back({check,
                  "equal, but no all-reduce",
                  Verdict::fail,
                  "GRAD.NOT_REDUCED",
                  R"({"step":2,"ranks":[0,1]})",
                  [](Healthy& h) {
                    remove_if(h.evidence.collectives,
                              [](const auto& row) { return row.row.step == 2; });
                  },
                  2,
                  2});
  list.push_back({check,
                  "each bucket twice",
                  Verdict::fail,
                  "COMM.EXTRA",
                  R"({"step":1,"detail":{"reductions_per_step":2.0}})",
                  [](Healthy& h) {
                    const auto rows = h.evidence.collectives;
                    for (auto row : rows) {
                      if (row.row.op != "allreduce") continue;
                      row.row.sequence += 2;
                      h.evidence.collectives.push_back(row);
                    }
                  }});
  list.push_back(
      {check,
       "a map of unused parameters is no reduction",
       Verdict::pass,
       "",
       "{}",
       [](Healthy& h) {
         for (int rank = 0; rank < 2; ++rank) {
           put(h.evidence.collectives,
               rank,
               harness::Collective{3, 1, "backward", "allreduce", "sum", "Int", 21, "default"});
         }
       }});
  list.push_back({check,
                  "a single rank keeps its gradient",
                  Verdict::pass,
                  "",
                  "{}",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.gradients) row.row.hash_after = row.row.hash_before;
                  },
                  1,
                  1});
  list.push_back({check, "no ledger", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.gradients.clear();
                  }});
  list.push_back(
      {check, "no collectives of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         remove_if(h.evidence.collectives, [](const auto& row) { return row.process == 1; });
       }});
  list.push_back({check, "no plan", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.buckets.clear();
                  }});
}

inline Tensors scaled(Tensors tensors,
                      float factor,
                      const std::function<bool(const std::string&)>& which) {
  for (auto& [name, values] : tensors) {
    if (!which(name)) continue;
    for (float& value : values) value *= factor;
  }
  return tensors;
}

inline void add_twin(std::vector<Planted>& list) {
  const std::string check = "matches_twin";
  const auto all = [](const std::string&) { return true; };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "averaged twice",
                  Verdict::fail,
                  "GRAD.SCALE",
                  R"({"step":1,"detail":{"factor":0.5}})",
                  [=](Healthy& h) {
                    for (int rank = 0; rank < 2; ++rank) {
                      h.write_gradients(
                          rank, "reduced_gradients", 1, rank, scaled(h.means(), 0.5F, all));
                    }
                  }});
  list.push_back({check,
                  "one bucket not averaged",
                  Verdict::fail,
                  "GRAD.SCALE",
                  R"({"bucket":1,"step":1,"detail":{"factor":2.0}})",
                  [](Healthy& h) {
                    const auto in_bucket = [&](const std::string& name) {
                      const auto at =
                          std::find(h.params.begin(), h.params.end(), name) - h.params.begin();
                      return h.bucket_of(static_cast<std::size_t>(at)) == 1;
                    };
                    for (int rank = 0; rank < 2; ++rank) {
                      h.write_gradients(
                          rank, "reduced_gradients", 1, rank, scaled(h.means(), 2.0F, in_bucket));
                    }
                  }});
  list.push_back({check,
                  "one rank scales",
                  Verdict::fail,
                  "GRAD.SCALE",
                  R"({"ranks":[1],"detail":{"factor":0.5}})",
                  [=](Healthy& h) {
                    h.write_gradients(1, "reduced_gradients", 1, 1, scaled(h.means(), 0.5F, all));
                  }});
  list.push_back({check,
                  "a local loss scaled",
                  Verdict::fail,
                  "GRAD.SCALE",
                  R"({"ranks":[1],"detail":{"factor":1.5}})",
                  [=](Healthy& h) {
                    h.write_gradients(1, "local_gradients", 1, 1, scaled(h.locals(1), 1.5F, all));
                  }});
  list.push_back({check,
                  "local gradients from layer 1 down",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[1],"ranks":[0],"step":1})",
                  [](Healthy& h) {
                    Tensors tensors = h.locals(0);
                    for (auto& [name, values] : tensors) {
                      if (name.rfind("blocks.1.attn.W_V_win", 0) == 0 ||
                          name.rfind("blocks.0.", 0) == 0)
                        values[3] += 0.5F;
                    }
                    h.write_gradients(0, "local_gradients", 1, 0, tensors);
                  }});
  list.push_back({check,
                  "one element summed wrongly",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"op":"grad_sync","param":"W_Q","layers":[2]})",
                  [](Healthy& h) {
                    Tensors tensors = h.means();
                    tensors["blocks.2.attn.W_Q.weight"][5] += 1e-5F;
                    for (int rank = 0; rank < 2; ++rank)
                      h.write_gradients(rank, "reduced_gradients", 1, rank, tensors);
                  }});
  list.push_back(
      {check, "a NaN", Verdict::fail, "NUMERIC.GRADIENT", R"({"op":"grad_sync"})", [](Healthy& h) {
         Tensors tensors = h.means();
         tensors["norm_f.weight"][0] = std::nanf("");
         for (int rank = 0; rank < 2; ++rank)
           h.write_gradients(rank, "reduced_gradients", 1, rank, tensors);
       }});
  list.push_back(
      {check, "no twin", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.without_twin(); }});
  list.push_back({check, "a file pruned", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (const auto& row : h.evidence.artefacts) {
                      if (row.row.name == "reduced_gradients")
                        std::filesystem::remove(h.folder() + "/" + row.row.path);
                    }
                  }});
  list.push_back({check, "a file cut short", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (const auto& row : h.evidence.artefacts) {
                      const std::string path = h.folder() + "/" + row.row.path;
                      if (row.process == 1 && row.row.name == "local_gradients")
                        std::filesystem::resize_file(path, 100);
                    }
                  }});
}

// ---- what ranks have in common -----------------------------------------------------------------------------------------

inline void add_collectives(std::vector<Planted>& list) {
  const std::string check = "collectives_agree";
  const auto change = [](int rank, std::int64_t sequence, auto what) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.collectives) {
        if (row.process == rank && row.row.sequence == sequence) what(row.row);
      }
    };
  };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "other size",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":1,"ranks":[2],"step":1})",
                  change(2, 1, [](harness::Collective& row) { row.count += 1; }),
                  4});
  list.push_back({check,
                  "other size, two ranks",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":2})",
                  change(1, 2, [](harness::Collective& row) { row.count -= 1; })});
  list.push_back({check,
                  "other operation",
                  Verdict::fail,
                  "DESYNC.OP",
                  R"({"sequence":2,"ranks":[0]})",
                  change(0, 2, [](harness::Collective& row) { row.reduce_op = "max"; }),
                  3});
  list.push_back(
      {check, "two swapped", Verdict::fail, "DESYNC.ORDER", R"({"sequence":0})", [](Healthy& h) {
         for (auto& row : h.evidence.collectives) {
           if (row.process == 1 && row.row.sequence < 2) row.row.sequence = 1 - row.row.sequence;
         }
       }});
  list.push_back({check,
                  "a rank that ended well did less",
                  Verdict::fail,
                  "DESYNC.MISSING_RANK",
                  R"({"ranks":[1],"sequence":3,"step":2})",
                  [](Healthy& h) {
                    remove_if(h.evidence.collectives, [](const auto& row) {
                      return row.process == 1 && row.row.step == 2;
                    });
                  },
                  2,
                  2});
  list.push_back({check,
                  "a rank that is there was overtaken",
                  Verdict::fail,
                  "DESYNC.MISSING_RANK",
                  R"({"ranks":[1],"sequence":2})",
                  [](Healthy& h) {
                    remove_if(h.evidence.collectives, [](const auto& row) {
                      return row.process == 1 && row.row.sequence >= 2;
                    });
                    h.ends(1, 0, SIGKILL, true);
                  }});
  list.push_back({check,
                  "other plan",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"bucket":0,"step":1,"op":"grad_sync"})",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.buckets) {
                      if (row.process == 1 && row.row.bucket == 0) row.row.elements += 3;
                    }
                  }});
  list.push_back(
      {check, "a rank that failed did less", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         remove_if(h.evidence.collectives,
                   [](const auto& row) { return row.process == 1 && row.row.sequence >= 2; });
         h.ends(1, 0, SIGSEGV, false);
       }});
  list.push_back({check, "no record of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    remove_if(h.evidence.collectives,
                              [](const auto& row) { return row.process == 0; });
                  }});
  list.push_back({check, "no record", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.collectives.clear();
                  }});
}

inline void add_state(std::vector<Planted>& list) {
  const auto other = [](int rank, const std::string& part, int step) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.parameters) {
        if (row.process == rank && row.row.step == step &&
            row.row.param.find(part) != std::string::npos)
          row.row.hash = "x";
      }
    };
  };
  list.push_back({"parameters_agree", "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({"parameters_agree",
                  "one of three",
                  Verdict::fail,
                  "STATE.DIVERGED",
                  R"({"ranks":[1],"step":2,"param":"W_Q","layers":[1]})",
                  other(1, "blocks.1.attn.W_Q", 2),
                  3,
                  3});
  list.push_back({"parameters_agree",
                  "one of two",
                  Verdict::fail,
                  "STATE.DIVERGED",
                  R"({"step":1,"param":"embed"})",
                  other(0, "embed", 1)});
  list.push_back(
      {"parameters_agree", "none recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         h.evidence.parameters.clear();
       }});
  list.push_back({"parameters_agree",
                  "one rank did not record",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    remove_if(h.evidence.parameters,
                              [](const auto& row) { return row.process == 1; });
                  }});
}

inline void add_data(std::vector<Planted>& list) {
  const std::string check = "data_distinct";
  const auto same_as_rank_0 = [](bool twin_too) {
    return [=](Healthy& h) {
      const std::string first = h.evidence.batches.front().row.hash;
      for (auto& row : h.evidence.batches) {
        if (row.row.of_rank < 2 && row.row.step == 1 && (row.process >= 0 || twin_too))
          row.row.hash = first;
      }
    };
  };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "same batch",
                  Verdict::fail,
                  "DATA.DUPLICATE",
                  R"({"ranks":[0,1],"step":1})",
                  same_as_rank_0(false),
                  3});
  list.push_back(
      {check, "the corpus repeats itself", Verdict::pass, "", "{}", same_as_rank_0(true), 3});
  list.push_back({check,
                  "other tokens than the twin's",
                  Verdict::fail,
                  "DATA.SOURCE",
                  R"({"ranks":[1],"step":1})",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.batches) {
                      if (row.process == 1) row.row.hash = "noise";
                    }
                  }});
  list.push_back(
      {check, "other source", Verdict::fail, "DATA.SOURCE", R"({"ranks":[0]})", [](Healthy& h) {
         for (auto& row : h.evidence.batches) {
           if (row.process == 0) row.row.source = "noise";
         }
       }});
  list.push_back({check, "no batch", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.batches.clear();
                  }});
  list.push_back({check, "no batch of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    remove_if(h.evidence.batches, [](const auto& row) { return row.process == 1; });
                  }});
}

// ---- numbers -----------------------------------------------------------------------------------------------------------

// Puts what a law gives in place of a branch's output, on the rows that `which` says.
inline LayerTensors under_law(
    LayerTensors tensors,
    const std::string& law,
    oracles::Branch branch,
    const std::string& name,
    const std::function<bool(std::int64_t group, std::int64_t row)>& which,
    int layer) {
  const auto config = harness::checks::oracle_config(toy_model());
  const oracles::KeyLawOutputs laws(config, random_weights(layer), tensors.reals.at("x"), {});
  const oracles::Tensor wrong = rounded(laws.output(law, branch));
  std::vector<double>& out = tensors.reals.at(name).data;
  const std::int64_t heads = config.heads_per_group();
  for (std::int64_t g = 0; g < config.n_kv_groups; ++g) {
    for (std::int64_t i = 0; i < heads; ++i) {
      for (std::int64_t t = 0; t < kLength; ++t) {
        if (!which(g, t)) continue;
        const auto begin = static_cast<std::size_t>(((g * heads + i) * kLength + t) * config.d_v);
        std::copy_n(wrong.data.begin() + static_cast<std::ptrdiff_t>(begin),
                    config.d_v,
                    out.begin() + static_cast<std::ptrdiff_t>(begin));
      }
    }
  }
  tensors.reals.at("y").data[0] += 0.25;  // what follows from it is wrong too
  return tensors;
}

inline std::function<void(Healthy&)> law_planted(
    const std::string& law,
    oracles::Branch branch,
    const std::string& name,
    int layer,
    const std::function<bool(std::int64_t, std::int64_t)>& which) {
  return [=](Healthy& h) {
    for (int rank = 0; rank < 2; ++rank) {
      h.write_layer(rank,
                    1,
                    rank,
                    layer,
                    under_law(healthy_layer(rank, layer), law, branch, name, which, layer));
    }
  };
}

inline std::function<void(Healthy&)> element_changed(const std::string& name,
                                                     int rank,
                                                     int layer,
                                                     double by) {
  return [=](Healthy& h) {
    LayerTensors tensors = healthy_layer(rank, layer);
    tensors.reals.at(name).data.at(9) += by;
    h.write_layer(rank, 1, rank, layer, tensors);
  };
}

inline void add_oracle(std::vector<Planted>& list) {
  using enum oracles::Branch;
  const std::string check = "close_to_oracle";
  const auto everywhere = [](std::int64_t, std::int64_t) { return true; };
  const auto few = [](std::int64_t group, std::int64_t row) { return group == 1 && row % 9 == 5; };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "first key only",
                  Verdict::fail,
                  "MASK.ALIGNMENT",
                  R"({"layers":[1],"branch":"sel","ranks":[0,1]})",
                  law_planted("top_left", sel, "o_sel", 1, everywhere)});
  list.push_back({check,
                  "first key only, in a few rows",
                  Verdict::fail,
                  "MASK.ALIGNMENT",
                  R"({"layers":[2],"branch":"win","rows":[5,14,23],"detail":{"groups":[1]}})",
                  law_planted("top_left", win, "o_win", 2, few)});
  list.push_back({check,
                  "mask inverted",
                  Verdict::fail,
                  "MASK.POLARITY",
                  R"({"layers":[0],"branch":"win"})",
                  law_planted("inverted", win, "o_win", 0, everywhere)});
  list.push_back({check,
                  "no mask",
                  Verdict::fail,
                  "MASK.ABSENT",
                  R"({"layers":[0],"branch":"cmp"})",
                  law_planted("no_mask", cmp, "o_cmp", 0, everywhere)});
  list.push_back({check,
                  "a window one longer",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[2],"branch":"win","detail":{"law":"one_longer"}})",
                  law_planted("one_longer", win, "o_win", 2, everywhere)});
  list.push_back({check,
                  "one element",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[1],"branch":"sel","ranks":[1],"op":"attend_sel"})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(1, 1);
                    tensors.reals.at("o_sel").data.at(9) += 1e-3;
                    tensors.reals.at("y").data.at(9) += 1e-3;
                    h.write_layer(1, 1, 1, 1, tensors);
                  }});
  list.push_back({check,
                  "the gate",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[0],"ranks":[0],"op":"gate"})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(0, 0);
                    tensors.reals.at("gate").data.at(4) += 1e-2;
                    tensors.reals.at("y").data.at(4) += 1e-2;
                    h.write_layer(0, 1, 0, 0, tensors);
                  }});
  list.push_back({check,
                  "a gradient",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[2],"ranks":[1],"param":"W_V_cmp","branch":"cmp"})",
                  element_changed("g.w.W_V_cmp.weight", 1, 2, 0.05)});
  list.push_back({check,
                  "a gradient that is not there",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[1],"param":"W_K_cmp"})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.reals.erase("g.w.W_K_cmp.weight");
                    h.write_layer(0, 1, 0, 1, tensors);
                  }});
  list.push_back({check,
                  "a NaN in the output",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[1],"ranks":[0]})",
                  element_changed("y", 0, 1, std::nan(""))});
  list.push_back(
      {check,
       "other blocks chosen",
       Verdict::fail,
       "SELECTION.WRONG",
       R"({"layers":[0],"ranks":[0],"op":"select"})",
       [](Healthy& h) {
         LayerTensors tensors = healthy_layer(0, 0);
         // The last row takes the block that the oracle rejects; values are what that choice gives.
         std::int64_t* last = tensors.blocks.data.data() + (2 * kLength - 1) * toy_model().n_sel;
         last[1] = last[1] == 2 ? 3 : 2;
         const auto config = harness::checks::oracle_config(toy_model());
         oracles::AttentionOptions options;
         options.replay = tensors.blocks;
         const auto pass = oracles::attention_with_gradients(
             config, random_weights(0), tensors.reals.at("x"), tensors.reals.at("dy"), options);
         const auto keep = [&](const char* name, const oracles::Tensor& tensor) {
           tensors.reals.at(name).data = rounded(tensor).data;
         };
         keep("o_sel", pass.result.o_sel);
         keep("y", pass.result.y);
         keep("dx", pass.gradients.x);
         for (const auto& [name, gradient] : pass.gradients.weights)
           keep(("g.w." + name).c_str(), gradient);
         h.write_layer(0, 1, 0, 0, tensors);
       }});
  list.push_back({check,
                  "no list of blocks",
                  Verdict::fail,
                  "SELECTION.WRONG",
                  R"({"layers":[1],"rows":[3]})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.blocks.data.at(static_cast<std::size_t>(3 * toy_model().n_sel)) = 77;
                    tensors.reals.at("y").data.at(4) += 1e-2;
                    h.write_layer(0, 1, 0, 1, tensors);
                  }});
  list.push_back({check, "nothing recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.artefacts.clear();
                  }});
  list.push_back({check, "pruned", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (const auto& row : h.evidence.artefacts) {
                      if (row.row.name == "attention_layer")
                        std::filesystem::remove(h.folder() + "/" + row.row.path);
                    }
                  }});
  list.push_back({check, "a tensor is missing", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (int layer = 0; layer < 3; ++layer) {
                      LayerTensors tensors = healthy_layer(0, layer);
                      tensors.reals.erase("dy");
                      h.write_layer(0, 1, 0, layer, tensors);
                    }
                  }});
}

inline void add_exposure(std::vector<Planted>& list) {
  list.push_back({"exercised", "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  const auto never = [](std::int64_t harness::Exposure::*what, int layer) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.exposures) {
        if (row.row.layer == layer) row.row.*what = 0;
      }
    };
  };
  list.push_back({"exercised",
                  "nothing dropped",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  never(&harness::Exposure::rows_dropped, 1)});
  list.push_back({"exercised",
                  "nothing cut",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  never(&harness::Exposure::rows_cut, 0)});
  list.push_back({"exercised",
                  "nothing compressed",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  never(&harness::Exposure::rows_compressed, 2)});
  list.push_back({"exercised", "no rows", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.exposures.clear();
                  }});
  list.push_back(
      {"exercised", "a layer without rows", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         remove_if(h.evidence.exposures, [](const auto& row) { return row.row.layer == 1; });
       }});
}

inline void add_finite(std::vector<Planted>& list) {
  const std::string check = "finite";
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "a loss",
                  Verdict::fail,
                  "NAN.ORIGIN",
                  R"({"ranks":[1],"step":2,"op":"loss","phase":"forward"})",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.samples) {
                      if (row.process == 1 && row.row.step == 2 && row.row.metric == "loss")
                        row.row.value = std::nan("");
                    }
                  },
                  2,
                  3});
  list.push_back({check,
                  "a branch output before the loss",
                  Verdict::fail,
                  "NAN.ORIGIN",
                  R"({"ranks":[0],"layers":[1],"branch":"win","op":"attend_win"})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.reals.at("o_win").data.at(20) = std::nan("");
                    tensors.reals.at("y").data.at(20) = std::nan("");
                    h.write_layer(0, 1, 0, 1, tensors);
                    for (auto& row : h.evidence.samples) row.row.value = std::nan("");
                    each_gradient(h.evidence, -1, "", [](Gradient& row) { row.state = "nan"; });
                  }});
  list.push_back({check,
                  "an infinite gradient",
                  Verdict::fail,
                  "NAN.ORIGIN",
                  R"({"param":"W_Q","layers":[2],"phase":"backward"})",
                  [](Healthy& h) {
                    each_gradient(h.evidence, 0, "blocks.2.attn.W_Q", [](Gradient& row) {
                      row.l2 = INFINITY;
                    });
                  }});
  list.push_back({check, "no samples", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.samples.clear();
                  }});
  list.push_back({check, "no gradients", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.gradients.clear();
                  }});
}

// ---- how it ran --------------------------------------------------------------------------------------------------------

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
  list.push_back({check, "no end known", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.exited.clear();
                  }});
  list.push_back({check, "the twin failed", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.ends(kTwin, 3, 0, false);
                  }});
}

// ---- standing still ----------------------------------------------------------------------------------------------------

struct Look {
  std::string state = "S";
  std::int64_t cpu_ms = 0;
  std::vector<std::string> frames;
};

inline void look_at(Healthy& h, int rank, const Look& first, const Look& second) {
  int number = 0;
  for (const Look& look : {first, second}) {
    harness::Observation row;
    row.process_observed = rank;
    row.look = number;
    row.state = look.state;
    row.cpu_ms = look.cpu_ms;
    harness::ThreadStack stack;
    stack.thread = "main";
    stack.state = look.state;
    stack.frames = look.frames;
    row.threads.push_back(stack);
    put(h.evidence.observations, kController, row, 30'000 + 2'000 * number);
    ++number;
  }
}

// All ranks still there, in `phase`, ended by the controller.
inline void stopped(Healthy& h, const std::string& reason, const std::string& phase) {
  h.without_twin();
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    h.ends(rank, 0, SIGKILL, true, 40'000);
    harness::Heartbeat beat;
    beat.phase = phase;
    beat.step = 1;
    beat.layer = 1;
    beat.counters.operators_forward = 60;
    beat.longest_gap_ms = 40;
    put(h.evidence.heartbeats, rank, beat, 20'000);
  }
  put(h.evidence.stopped, kController, harness::Stopped{reason, "", 34'000}, 34'000);
  if (reason == "still")
    put(h.evidence.suspects, kController, harness::Suspect{12'000, 10'000, 40}, 30'000);
}

// Ranks from `first` on wait in collective 2.
inline void waiting(Healthy& h, int first) {
  remove_if(h.evidence.collectives_done,
            [=](const auto& row) { return row.process >= first && row.row.sequence == 2; });
}

inline void add_progress(std::vector<Planted>& list) {
  const std::string check = "progress";
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "a stopped process",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[1],"step":1,"detail":{"state":"T"}})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    waiting(h, 0);
                    look_at(h, 0, {"S", 500, {"epoll_wait"}}, {"S", 510, {"epoll_wait"}});
                    look_at(h, 1, {"T", 400, {}}, {"T", 400, {}});
                  }});
  list.push_back({check,
                  "all in the rendezvous",
                  Verdict::fail,
                  "HANG.INIT",
                  R"({"phase":"rendezvous"})",
                  [](Healthy& h) {
                    stopped(h, "still", "rendezvous");
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"accept"}}, {"S", 6, {"accept"}});
                  }});
  list.push_back(
      {check, "one never joined", Verdict::fail, "HANG.INIT", R"({"ranks":[1]})", [](Healthy& h) {
         stopped(h, "still", "rendezvous");
         for (auto& row : h.evidence.heartbeats) {
           if (row.process == 1) row.row.phase = "init";
         }
         for (int rank = 0; rank < 2; ++rank)
           look_at(h, rank, {"S", 5, {"accept"}}, {"S", 6, {"accept"}});
       }});
  list.push_back({check,
                  "all in a collective",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1],"sequence":2,"step":1})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                  }});
  list.push_back({check,
                  "a spinning wait",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"sequence":2})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    waiting(h, 0);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"R", 0, {"spin"}}, {"R", 2000, {"spin"}});
                  }});
  list.push_back({check,
                  "one in no collective",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[0],"layers":[1],"phase":"forward"})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    waiting(h, 1);
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"lock"}}, {"S", 6, {"lock"}});
                  }});
  list.push_back({check,
                  "in different groups",
                  Verdict::fail,
                  "HANG.CYCLE",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    stopped(h, "still", "backward");
                    put(h.evidence.collectives,
                        0,
                        harness::Collective{0, 1, "backward", "allreduce", "sum", "Float", 4, "a"});
                    put(h.evidence.collectives,
                        1,
                        harness::Collective{0, 1, "backward", "allreduce", "sum", "Float", 4, "b"});
                    for (int rank = 0; rank < 2; ++rank)
                      look_at(h, rank, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                  }});
  list.push_back({check,
                  "no counter, but busy",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"ranks":[0],"phase":"forward"})",
                  [](Healthy& h) {
                    stopped(h, "still", "forward");
                    look_at(h, 0, {"R", 0, {"loop", "a"}}, {"R", 1900, {"loop", "b"}});
                    look_at(h, 1, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
                  }});
  list.push_back({check,
                  "out of budget while moving",
                  Verdict::fail,
                  "SLOW.HOST",
                  R"({"phase":"forward","step":1})",
                  [](Healthy& h) {
                    stopped(h, "budget", "forward");
                    for (auto& row : h.evidence.heartbeats) row.t_ms += 12'000;
                  }});
  list.push_back(
      {check, "out of budget, movement unknown", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         stopped(h, "budget", "forward");
         h.evidence.heartbeats.clear();
       }});
  list.push_back({check, "no looks", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    stopped(h, "still", "backward");
                  }});
  list.push_back({check, "interrupted", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    stopped(h, "interrupted", "forward");
                  }});
  list.push_back({check, "a peer had ended", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    stopped(h, "peer_ended", "forward");
                  }});
  list.push_back({check, "no end known", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.exited.clear();
                  }});
}

inline const std::vector<Planted>& all_planted() {
  static const std::vector<Planted> kAll = [] {
    std::vector<Planted> list;
    for (const auto add : {add_arrival,
                           add_agreement,
                           add_twin,
                           add_collectives,
                           add_state,
                           add_data,
                           add_oracle,
                           add_exposure,
                           add_finite,
                           add_route,
                           add_ends,
                           add_progress}) {
      add(list);
    }
    return list;
  }();
  return kAll;
}

}  // namespace fixtures
