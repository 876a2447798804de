// Defects of gradients' numbers: the twin, the joint batch.
#pragma once

#include <string>

#include "tests/checks/planted_case.h"

namespace fixtures {

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
