// Defects of the type in which gradients are reduced.
#pragma once

#include <bit>

#include "tests/checks/planted_gradients.h"

namespace fixtures {

// Rounded to the nearest number of 8 bits.
inline Tensors as_bfloat16(Tensors tensors) {
  for (auto& [name, values] : tensors) {
    for (float& value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value) + 0x8000U;
      value = std::bit_cast<float>(bits & 0xFFFF0000U);
    }
  }
  return tensors;
}

inline void add_sums(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const std::string& compress,
                       const std::function<Tensors(const Healthy&)>& reduced,
                       int ranks = 2) {
    const auto spoil = [=](Healthy& h) {
      h.evidence.the_case.scenario.parallel.compress = compress;
      for (int rank = 0; rank < ranks; ++rank) {
        h.write_gradients(rank, "reduced_gradients", 1, rank, reduced(h));
      }
    };
    list.push_back({"matches_twin", name, verdict, code, site, spoil, ranks, 1});
  };
  const auto all = [](const std::string&) { return true; };
  const auto rounded = [](const Healthy& h) { return as_bfloat16(h.means()); };
  add("sent as bfloat16", Verdict::pass, "", "{}", "bf16", rounded);
  add("sent as bfloat16 unasked",
      Verdict::fail,
      "COMM.DTYPE",
      R"({"step":1,"op":"grad_sync","detail":{"narrowed":"sums"}})",
      "none",
      rounded);
  // Of two ranks, as written by fixtures: bf16(g_0 / 2) + bf16(g_1 / 2).
  add("made of addends of bfloat16",
      Verdict::fail,
      "COMM.DTYPE",
      R"({"step":1,"detail":{"narrowed":"addends"}})",
      "none",
      [=](const Healthy& h) {
        const Tensors first = as_bfloat16(scaled(h.locals(0), 0.5F, all));
        Tensors sum = as_bfloat16(scaled(h.locals(1), 0.5F, all));
        for (auto& [name, values] : sum) {
          for (std::size_t i = 0; i < values.size(); ++i) values[i] += first.at(name)[i];
        }
        return sum;
      });
  add("sent as bfloat16 and not averaged",
      Verdict::fail,
      "GRAD.SCALE",
      R"({"detail":{"factor":2.0}})",
      "bf16",
      [=](const Healthy& h) { return as_bfloat16(scaled(h.means(), 2.0F, all)); });
  add("wrong beyond what bfloat16 loses",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"op":"grad_sync","param":"W_Q","layers":[2]})",
      "bf16",
      [=](const Healthy& h) {
        Tensors tensors = as_bfloat16(h.means());
        tensors["blocks.2.attn.W_Q.weight"][5] += 0.1F;
        return tensors;
      });
  add(
      "not averaged over four ranks",
      Verdict::fail,
      "GRAD.SCALE",
      R"({"step":1,"detail":{"factor":4.0}})",
      "none",
      [=](const Healthy& h) { return scaled(h.means(), 4.0F, all); },
      4);
}

}  // namespace fixtures
