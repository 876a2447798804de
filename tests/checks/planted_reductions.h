// Defects of how often and in what type gradients are reduced.
#pragma once

#include <bit>

#include "tests/checks/planted_gradients.h"

namespace fixtures {

// Puts all gradients of a rank's step into one bucket.
inline void one_bucket(Healthy& h, int rank, std::int64_t step) {
  harness::Bucket all{step, 0, 0, "Float", {}};
  remove_if(h.evidence.buckets, [&](const auto& row) {
    if (row.process != rank || row.row.step != step) return false;
    all.elements += row.row.elements;
    all.params.insert(all.params.end(), row.row.params.begin(), row.row.params.end());
    return true;
  });
  put(h.evidence.buckets, rank, all);
}

inline void add_bucket_sizes(std::vector<Planted>& list) {
  const PlantedAdder add{list, "buckets_as_asked", 2, 2};
  const char* const code = "COMM.BUCKETS";
  const auto asked = [](double mib) {
    return [=](Healthy& h) { h.evidence.the_case.scenario.parallel.bucket_mb = mib; };
  };
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("a first step that learns the order", Verdict::pass, "", "{}", [](Healthy& h) {
    for (const int rank : {0, 1}) one_bucket(h, rank, 1);
  });
  const auto learns_twice = [](Healthy& h) {
    h.evidence.the_case.scenario.parallel.static_graph = true;
    for (const int rank : {0, 1}) {
      for (const int step : {1, 2}) one_bucket(h, rank, step);
    }
  };
  add("no step after those that learn the order", Verdict::inconclusive, "", "{}", learns_twice);
  const PlantedAdder of_three_steps{list, "buckets_as_asked", 2, 3};
  of_three_steps(
      "a static graph learns it in the second step", Verdict::pass, "", "{}", learns_twice);
  add("never cut", Verdict::fail, code, R"({"step":2,"ranks":[1],"bucket":0})", [](Healthy& h) {
    for (const int rank : {0, 1}) one_bucket(h, rank, 1);
    one_bucket(h, 1, 2);
  });
  add("larger than asked",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[0,1],"bucket":0,"op":"grad_sync"})",
      asked(0.001));
  add("smaller than asked", Verdict::fail, code, R"({"step":1,"ranks":[0,1]})", asked(25.0));
  add("no plan", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.buckets, [](const auto& row) { return row.process == 1; });
  });
  add("a bucket told to be half as large", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.buckets.front().row.elements /= 2;
  });
  add("no gradients", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.artefacts,
              [](const auto& row) { return row.row.name == "local_gradients"; });
  });
}

// Two micro-batches a step, reduced in the second one.
inline void accumulate_two(Healthy& h) {
  h.evidence.the_case.scenario.training.accumulate = 2;
  for (auto& row : h.evidence.collectives) row.row.micro = row.row.op == "allreduce" ? 1 : 0;
}

inline void add_accumulation(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    const std::string code = verdict == Verdict::fail ? "COMM.EXTRA" : "";
    list.push_back({"gradients_agree", name, verdict, code, site, spoil, 2, 2});
  };
  const auto each_reduction = [](Healthy& h, auto change) {
    for (auto& row : h.evidence.collectives) {
      if (row.row.op == "allreduce") change(row.row);
    }
  };
  add("reduced in the last micro-batch", Verdict::pass, "{}", accumulate_two);
  add("a record without micro-batches", Verdict::pass, "{}", [](Healthy& h) {
    h.evidence.the_case.scenario.training.accumulate = 2;
  });
  add("reduced in every micro-batch",
      Verdict::fail,
      R"({"step":1,"ranks":[0,1],"detail":{"reductions_per_step":2,"expected":1}})",
      [](Healthy& h) {
        accumulate_two(h);
        const auto rows = h.evidence.collectives;
        for (auto row : rows) {
          if (row.row.op != "allreduce") continue;
          row.row.sequence += 100;
          row.row.micro = 0;
          h.evidence.collectives.push_back(row);
        }
      });
  add("reduced in the first micro-batch alone",
      Verdict::fail,
      R"({"step":2,"detail":{"before_the_last_micro_batch":2}})",
      [=](Healthy& h) {
        accumulate_two(h);
        each_reduction(h, [](harness::Collective& row) { row.micro = row.step == 2 ? 0 : 1; });
      });
  add("a static graph reduces after its first backward", Verdict::pass, "{}", [=](Healthy& h) {
    each_reduction(h, [](harness::Collective& row) {
      if (row.step == 1) row.phase = "record";
    });
  });
  add("sent as bfloat16", Verdict::pass, "{}", [=](Healthy& h) {
    each_reduction(h, [](harness::Collective& row) { row.dtype = "BFloat16"; });
  });
  add("a step that an earlier life began", Verdict::pass, "{}", [](Healthy& h) {
    for (auto& row : h.evidence.collectives) row.t_ms += 1000;
    const auto rows = h.evidence.collectives;
    for (auto row : rows) {
      row.t_ms -= 1000;
      if (row.row.step == 2) h.evidence.collectives.push_back(row);
    }
    put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed"}, 600);
  });
}

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
