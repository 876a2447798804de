// What is planted into a healthy sweep of sizes.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

// Weights and both moments, in float32.
inline double held_by_state() {
  nsa::ModelConfig model = toy_model();
  model.n_layers = 2;
  return 12.0 * static_cast<double>(model.parameter_count());
}

inline constexpr double kPairBytes = 24.0;  // of a query-key pair

// Sizes whose memory is exactly what its parts are: gradients, tokens, tokens a layer, query-key pairs a layer.
inline void make_sweep(Healthy& h,
                       double tokens_power = 1.0,
                       double pairs_factor_of_large = 1.0,
                       double pair_bytes = kPairBytes) {
  h.evidence.samples.clear();
  harness::Scenario& scenario = h.evidence.the_case.scenario;
  scenario.model.n_layers = 2;
  scenario.sweep.batch_size = {1, 2, 4};
  scenario.sweep.seq_len = {128, 256, 512, 1024};
  const double held = held_by_state();
  int number = 0;
  const auto put_sample = [&](const char* metric, double value) {
    put(h.evidence.samples, 0, harness::Sample{metric, number, value});
  };
  put_sample("memory_bytes", 16e9);
  for (const double batch : {1.0, 2.0, 4.0}) {
    for (const double length : {128.0, 256.0, 512.0, 1024.0}) {
      ++number;
      const double tokens = batch * length;
      const double factor = tokens > 1000.0 ? pairs_factor_of_large : 1.0;
      const double transient = 1e5 + 4000.0 * tokens * std::pow(batch, tokens_power - 1.0) +
                               factor * pair_bytes * tokens * length;
      put_sample("seq_len", length);
      put_sample("batch_size", batch);
      put_sample("n_layers", 2.0);
      put_sample("tokens", tokens);
      put_sample("held_bytes", held);
      put_sample("peak_bytes", held + transient);
      put_sample("step_ms", 0.01 * tokens);
      for (const char* kept : {"kept_bytes", "kept_bytes_plain"}) {
        put_sample((std::string(kept) + ".attend_sel.0").c_str(), 64.0 * tokens);
        put_sample((std::string(kept) + ".attend_sel.1").c_str(), 64.0 * tokens);
        put_sample((std::string(kept) + ".gate.1").c_str(), -8.0);
      }
    }
  }
}

// Multiplies what was sampled of one metric.
inline std::function<void(Healthy&)> sweep_with(const std::string& metric, double factor) {
  return [=](Healthy& h) {
    make_sweep(h);
    for (auto& row : h.evidence.samples) {
      if (row.row.metric == metric) row.row.value = factor * row.row.value;
    }
  };
}

inline void add_sweep_as_asked(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    list.push_back({"measured_as_asked", name, verdict, code, site, spoil, 1, 1, "sweep"});
  };
  add("healthy", Verdict::pass, "", "{}", [](Healthy& h) { make_sweep(h); });
  add("half of the tokens",
      Verdict::fail,
      "DATA.WRONG",
      R"({"op":"data"})",
      sweep_with("tokens", 0.5));
  add("more is held than the state",
      Verdict::fail,
      "MEM.BUDGET",
      R"({"op":"zero_grad"})",
      sweep_with("held_bytes", 20.0));
  add("no sizes on record", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.samples.clear();
  });
}

inline void add_sweep(std::vector<Planted>& list) {
  add_sweep_as_asked(list);
  const std::string check = "memory_scaling";
  list.push_back({check,
                  "healthy",
                  Verdict::pass,
                  "",
                  "{}",
                  [](Healthy& h) { make_sweep(h); },
                  1,
                  1,
                  "sweep"});
  list.push_back({check,
                  "large sizes keep the scores twice",
                  Verdict::fail,
                  "MEM.BUDGET",
                  "{}",
                  [](Healthy& h) { make_sweep(h, 1.0, 2.0); },
                  1,
                  1,
                  "sweep"});
  list.push_back({check,
                  "the largest size takes less than predicted",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    make_sweep(h);
                    for (auto& row : h.evidence.samples) {
                      const bool largest = row.row.metric == "peak_bytes" && row.row.step == 12;
                      if (largest) row.row.value = 0.75 * row.row.value;
                    }
                  },
                  1,
                  1,
                  "sweep"});
  list.push_back({check,
                  "memory grows with the cube of the length",
                  Verdict::fail,
                  "MEM.EXPONENT",
                  R"({"op":"seq_len"})",
                  [](Healthy& h) {
                    make_sweep(h);
                    std::map<std::int64_t, double> length;
                    for (const auto& row : h.evidence.samples) {
                      if (row.row.metric == "seq_len") length[row.row.step] = row.row.value;
                    }
                    for (auto& row : h.evidence.samples) {
                      if (row.row.metric == "peak_bytes")
                        row.row.value =
                            held_by_state() + 0.01 * std::pow(length[row.row.step], 3.0);
                    }
                  },
                  1,
                  1,
                  "sweep"});
  const auto by_route = [](const std::string& cmp, const std::string& sel, double pairs) {
    return [=](Healthy& h) {
      make_sweep(h, 1.0, 1.0, pairs);
      h.evidence.the_case.scenario.route = {{"attend_cmp", cmp}, {"attend_sel", sel}};
    };
  };
  const auto along_length =
      [&](const std::string& name, Verdict verdict, const std::function<void(Healthy&)>& make) {
        const bool fails = verdict == Verdict::fail;
        list.push_back({check,
                        name,
                        verdict,
                        fails ? "MEM.EXPONENT" : "",
                        fails ? R"({"op":"seq_len"})" : "{}",
                        make,
                        1,
                        1,
                        "sweep"});
      };
  along_length("a back end without pairs grows with the square",
               Verdict::fail,
               by_route("sdpa", "gather", kPairBytes));
  along_length(
      "a back end without pairs grows linearly", Verdict::pass, by_route("sdpa", "gather", 0.0));
  along_length(
      "one branch is the plain one", Verdict::pass, by_route("sdpa", "reference", kPairBytes));
  along_length("the old dense form", Verdict::pass, by_route("sdpa", "masked", kPairBytes));
  along_length("a whole layer without pairs grows with the square", Verdict::fail, [](Healthy& h) {
    make_sweep(h);
    h.evidence.the_case.scenario.route = {{"attention", "cuda"}};
  });
  // The smaller sizes have their peak at another moment, which grows with the length alone.
  const auto peaks = [](double per_token, double per_pair) {
    return [=](Healthy& h) {
      make_sweep(h, 1.0, 1.0, 0.0);
      h.evidence.the_case.scenario.route = {{"attend_cmp", "sdpa"}, {"attend_sel", "gather"}};
      std::map<std::int64_t, double> length;
      for (const auto& row : h.evidence.samples) {
        if (row.row.metric == "seq_len") length[row.row.step] = row.row.value;
      }
      for (auto& row : h.evidence.samples) {
        const double n = length[row.row.step];
        if (row.row.metric == "peak_bytes") {
          row.row.value = held_by_state() + std::max(per_token * n, per_pair * n * n);
        }
      }
    };
  };
  along_length("a moment that grows with the square is the peak of the largest sizes alone",
               Verdict::fail,
               peaks(40'000.0, 100.0));
  along_length("token by token, each with a cache", Verdict::pass, [](Healthy& h) {
    make_sweep(h);
    h.evidence.the_case.scenario.route = {
        {"attention", "sequential"}, {"attend_cmp", "sdpa"}, {"attend_sel", "gather"}};
  });
  list.push_back({check,
                  "the batch counts twice",
                  Verdict::fail,
                  "MEM.BUDGET",
                  "{}",
                  [](Healthy& h) { make_sweep(h, 2.5); },
                  1,
                  1,
                  "sweep"});
  const auto keeps = [&](const std::string& name,
                         Verdict verdict,
                         const std::string& site,
                         const std::function<void(Healthy&)>& spoil) {
    const auto make = [=](Healthy& h) {
      make_sweep(h);
      spoil(h);
    };
    const std::string code = verdict == Verdict::fail ? "MEM.BUDGET" : "";
    list.push_back({check, name, verdict, code, site, make, 1, 1, "sweep"});
  };
  const auto each_kept = [](Healthy& h, const std::string& metric, auto change) {
    for (auto& row : h.evidence.samples) {
      if (row.row.metric == metric) change(row.row);
    }
  };
  keeps("one layer keeps a constant factor more",
        Verdict::fail,
        R"({"op":"attend_sel","layers":[1],"branch":"sel","detail":{"seq_len":1024.0}})",
        [=](Healthy& h) {
          each_kept(h, "kept_bytes.attend_sel.1", [](harness::Sample& row) {
            row.value = row.value * 1.25;
          });
        });
  keeps("one byte more at one size",
        Verdict::fail,
        R"({"op":"attend_sel","layers":[0],"detail":{"seq_len":256.0}})",
        [=](Healthy& h) {
          each_kept(h, "kept_bytes.attend_sel.0", [](harness::Sample& row) {
            if (row.step == 2) row.value = row.value + 1.0;
          });
        });
  keeps("less than the implementation", Verdict::pass, "{}", [=](Healthy& h) {
    each_kept(h, "kept_bytes.attend_sel.1", [](harness::Sample& row) { row.value = 0.0; });
  });
  keeps("nobody knows what it should keep", Verdict::inconclusive, "{}", [](Healthy& h) {
    remove_if(h.evidence.samples, [](const auto& row) {
      return row.row.metric == "kept_bytes_plain.attend_sel.1" && row.row.step == 2;
    });
  });
  keeps("nothing kept was recorded", Verdict::inconclusive, "{}", [](Healthy& h) {
    remove_if(h.evidence.samples,
              [](const auto& row) { return row.row.metric.starts_with("kept_bytes"); });
  });
  list.push_back({check,
                  "a size without its peak",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    make_sweep(h);
                    remove_if(h.evidence.samples, [](const auto& row) {
                      return row.row.metric == "peak_bytes" && row.row.step == 3;
                    });
                  },
                  1,
                  1,
                  "sweep"});
  list.push_back({check,
                  "no samples",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) { h.evidence.samples.clear(); },
                  1,
                  1,
                  "sweep"});
}

}  // namespace fixtures
