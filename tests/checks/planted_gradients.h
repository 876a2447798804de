// Defects of gradients: their arrival, their agreement, the twin.
#pragma once

#include <array>
#include <map>
#include <stdexcept>
#include <string>

#include "harness/checks/data_of.h"
#include "harness/checks/parameter_names.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

inline void unreachable(Gradient& row) {
  row.reachable = harness::Reach::no;
  row.ready_count = 0;
  row.state = "none";
  row.hash_before.clear();
  row.hash_after.clear();
}

inline void raises_in_backward(Healthy& h, int rank, const std::string& what) {
  harness::WorkerError error;
  error.type = "c10::Error";
  error.what = what;
  error.phase = "backward";
  error.step = 1;
  put(h.evidence.errors, rank, error);
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
                  "none from a layer that is computed again",
                  Verdict::fail,
                  "GRAD.MISSING",
                  R"({"param":"W_V_sel","op":"checkpoint","layers":[0],"ranks":[0]})",
                  [](Healthy& h) {
                    h.evidence.the_case.scenario.parallel.checkpoint_layers = {0};
                    each_gradient(h.evidence, 0, "blocks.0.attn.W_V_sel", [](Gradient& row) {
                      row.ready_count = 0;
                      row.state = "none";
                    });
                  }});
  list.push_back({check,
                  "reached but none, and the reducer says that it is not finished",
                  Verdict::fail,
                  "GRAD.MISSING",
                  R"({"param":"lm_head","ranks":[0]})",
                  [](Healthy& h) {
                    each_gradient(h.evidence, 0, "lm_head", [](Gradient& row) {
                      row.ready_count = 0;
                      row.state = "none";
                    });
                    raises_in_backward(
                        h, 0, "Expected to have finished reduction in the prior iteration");
                  }});
  list.push_back({check,
                  "not come to when an exception ended the backward",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    each_gradient(h.evidence, 0, "lm_head", [](Gradient& row) {
                      row.ready_count = 0;
                      row.state = "none";
                    });
                    raises_in_backward(h, 0, "out of paper");
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
  // Equal values: no key makes a difference.
  const auto of_one_token = [](Healthy& h, const char* param) {
    nsa::DataConfig& data = h.evidence.the_case.scenario.training.data;
    data.source = nsa::DataConfig::Source::long_range;
    data.distance = 1;
    data.sharpness = 1.0;
    each_gradient(h.evidence, -1, param, [](Gradient& row) { row.state = "zero"; });
  };
  list.push_back({check,
                  "exactly zero in the first layer, where each sequence is one token repeated",
                  Verdict::pass,
                  "",
                  "{}",
                  [=](Healthy& h) { of_one_token(h, "blocks.0.attn.W_K_win"); }});
  list.push_back({check,
                  "exactly zero in a later layer, though each sequence is one token repeated",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[1],"param":"W_K_win","branch":"win"})",
                  [=](Healthy& h) { of_one_token(h, "blocks.1.attn.W_K_win"); }});
  list.push_back({check,
                  "a value's gradient exactly zero, though each sequence is one token repeated",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[0],"param":"W_V_win","branch":"win"})",
                  [=](Healthy& h) { of_one_token(h, "blocks.0.attn.W_V_win"); }});
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
         error.type = "c10::Error";
         error.frames = {"c10::detail::torchCheckFail(char const*)+0x42 (libc10.so)",
                         "c10d::Reducer::checkAndRaiseMarkedTwiceError(unsigned long)+0x1c2 "
                         "(libtorch_cpu.so)"};
         error.step = 1;
         error.what = "Of index 26, blocks.1.attn.gate.fc1.weight, came one more than was wanted.";
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
  // Of two positions that predict, a mask scores one or both: a window of one key acts by no key.
  const auto zero_keys_where = [](Healthy& h, std::int64_t scored) {
    h.evidence.the_case.scenario.training.seq_len = 3;
    h.evidence.the_case.scenario.training.batch_size = 1;
    h.evidence.the_case.scenario.training.data.loss_mask = nsa::DataConfig::LossMask::ragged;
    const oracles::DataConfig data = harness::checks::data_of(h.evidence.the_case.scenario);
    int changed = 0;
    for (auto& row : h.evidence.gradients) {
      if (row.process < 0 || harness::checks::short_name(row.row.param) != "W_K_win") continue;
      if (oracles::scored_positions(data, {row.row.step, 0, row.process}).front() != scored)
        continue;
      row.row.state = "zero";
      ++changed;
    }
    if (changed == 0) throw std::logic_error("no row to spoil");
  };
  list.push_back({check,
                  "one scored position has no influence by its key",
                  Verdict::pass,
                  "",
                  "{}",
                  [=](Healthy& h) { zero_keys_where(h, 1); },
                  4,
                  2});
  list.push_back({check,
                  "zero though two positions are scored",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"param":"W_K_win"})",
                  [=](Healthy& h) { zero_keys_where(h, 2); },
                  4,
                  2});
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
  // All-reduces of one size that one rank issues in another order end well, with the sums exchanged.
  list.push_back({check,
                  "two sums exchanged on one rank of three",
                  Verdict::fail,
                  "DESYNC.ORDER",
                  R"({"ranks":[1],"step":1,"layers":[1],"op":"grad_sync"})",
                  [](Healthy& h) {
                    const std::array<std::string, 2> names = {"blocks.1.attn.W_K_sel.weight",
                                                              "blocks.1.attn.W_K_win.weight"};
                    std::map<std::string, std::string> sums;
                    each_gradient(h.evidence, 0, "blocks.1.attn.W_K_", [&](Gradient& row) {
                      if (row.step == 1) sums[row.param] = row.hash_after;
                    });
                    each_gradient(h.evidence, 1, "blocks.1.attn.W_K_", [&](Gradient& row) {
                      if (row.step != 1) return;
                      if (row.param == names[0]) row.hash_after = sums[names[1]];
                      if (row.param == names[1]) row.hash_after = sums[names[0]];
                    });
                  },
                  3,
                  2});
  // Pieces of sharded parameters, whose sums a rank gets from a reduction that scatters them.
  const auto in_pieces = [=](int holders, int other_rank) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.gradients) {
        row.row.piece = std::to_string(row.process / holders);
        row.row.hash_after += row.row.piece;
        if (row.process == other_rank) row.row.hash_after += "x";
      }
      for (auto& row : h.evidence.collectives) {
        if (row.row.op == "allreduce") row.row.op = "reduce_scatter";
      }
    };
  };
  list.push_back(
      {check, "pieces of one rank each", Verdict::pass, "", "{}", in_pieces(1, 1), 2, 2});
  list.push_back(
      {check, "pieces of two ranks each", Verdict::pass, "", "{}", in_pieces(2, -5), 4, 2});
  list.push_back({check,
                  "a piece that is another sum on one of its ranks",
                  Verdict::fail,
                  "GRAD.NOT_REDUCED",
                  R"({"step":1})",
                  in_pieces(2, 3),
                  4,
                  2});
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

inline void add_joint(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    list.push_back({"equals_joint_batch", name, verdict, code, site, [=](Healthy& h) {
                      h.write_gradients(harness::kTwin, "joint_gradients", 1, 0, h.means());
                      spoil(h);
                    }});
  };
  const auto of_all_ranks = [](Healthy& h, const Tensors& reduced) {
    for (int rank = 0; rank < 2; ++rank) {
      h.write_gradients(rank, "reduced_gradients", 1, rank, reduced);
    }
  };
  const auto only_of = [](const std::string& wanted) {
    return [=](const std::string& name) { return name == wanted; };
  };
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("half of the joint gradients",
      Verdict::fail,
      "GRAD.SCALE",
      R"({"step":1,"detail":{"factor":0.5}})",
      [=](Healthy& h) {
        of_all_ranks(h, scaled(h.means(), 0.5F, [](const std::string&) { return true; }));
      });
  add("one parameter differs in the seventh digit",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"step":1,"layers":[0],"param":"W_V_win"})",
      [=](Healthy& h) {
        of_all_ranks(h, scaled(h.means(), 1.0000002F, only_of("blocks.0.attn.W_V_win.weight")));
      });
  add("a number that is none",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"step":1,"param":"norm_f"})",
      [=](Healthy& h) {
        of_all_ranks(h, scaled(h.means(), std::nanf(""), only_of("norm_f.weight")));
      });
  add("no joint pass", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    std::erase_if(h.evidence.artefacts,
                  [](const auto& row) { return row.row.name == "joint_gradients"; });
  });
  add("no twin", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.without_twin(); });
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
  const auto on_device = [](int rank, auto change) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.parallel.device = nsa::Device::cuda;
      Tensors tensors = h.locals(rank);
      change(tensors["blocks.1.attn.W_Q.weight"]);
      h.write_gradients(rank, "local_gradients", 1, rank, tensors);
    };
  };
  list.push_back(
      {check,
       "rounded otherwise on a device",
       Verdict::pass,
       "",
       "{}",
       on_device(1, [](Values& values) { values[3] = std::nextafter(values[3], 9.0F); })});
  list.push_back({check,
                  "beyond the ceiling on a device",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[1],"param":"W_Q","ranks":[1]})",
                  on_device(1, [](Values& values) { values[3] += 0.01F; })});
  list.push_back({check,
                  "a NaN on a device",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[1],"param":"W_Q","ranks":[0]})",
                  on_device(0, [](Values& values) { values[0] = std::nanf(""); })});
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

}  // namespace fixtures
