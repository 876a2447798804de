// Defects of optimiser steps: those that are left out, and the rates that are applied.
#pragma once

#include "harness/checks/training/scheduled_rate.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

inline void set_sample(Healthy& h, const std::string& metric, std::int64_t step, double value) {
  for (auto& row : h.evidence.samples) {
    if (row.row.metric == metric && row.row.step == step) row.row.value = value;
  }
}

// These steps are skipped, their gradients are in this state, the scale halves, and the schedule waits for them.
inline void skip(Healthy& h,
                 const std::set<std::int64_t>& steps,
                 const std::string& state = "inf") {
  const harness::Scenario& scenario = h.evidence.the_case.scenario;
  std::int64_t number = 1;
  double scale = 65536.0;
  for (std::int64_t step = 1; step <= scenario.training.steps; ++step) {
    const double rate = harness::checks::scheduled_rate(scenario.training.optimizer, number);
    set_sample(h, "lr", step, rate);
    if (steps.count(step) > 0) {
      set_sample(h, "grad_norm", step, INFINITY);
      scale /= 2.0;
    } else {
      ++number;
    }
    for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
      put(h.evidence.samples, rank, harness::Sample{"loss_scale", step, scale});
    }
  }
  for (auto& row : h.evidence.updates) row.row.skipped = steps.count(row.row.step) > 0;
  each_gradient(h.evidence, 1, "W_Q", [&](Gradient& row) {
    if (steps.count(row.step) > 0) row.state = state;
  });
}

inline void add_skips(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil,
                       nsa::Precision precision = nsa::Precision::fp16) {
    const auto make = [=](Healthy& h) {
      h.evidence.the_case.scenario.training.precision = precision;
      spoil(h);
    };
    const std::string code = verdict == Verdict::fail ? "OPT.SKIPPED" : "";
    list.push_back({"optimizer_sound", name, verdict, code, site, make, 2, 4});
  };
  add("the scale is searched for", Verdict::pass, "{}", [](Healthy& h) { skip(h, {1, 2}); });
  add("overflows whose state is told as ok", Verdict::pass, "{}", [](Healthy& h) {
    skip(h, {1, 2}, "ok");
    each_gradient(h.evidence, 1, "W_Q", [](Gradient& row) {
      if (row.step <= 2) row.absmax = INFINITY;
    });
  });
  add("one overflow later", Verdict::pass, "{}", [](Healthy& h) { skip(h, {1, 3}); });
  add("two overflows in a row later", Verdict::pass, "{}", [](Healthy& h) { skip(h, {2, 3}); });
  add("overflows again and again, at half the scale each time",
      Verdict::pass,
      "{}",
      [](Healthy& h) {
        skip(h, {1, 2, 4});
      });
  add("the scale does not fall",
      Verdict::fail,
      R"({"step":2,"detail":{"steps":[2,4]}})",
      [](Healthy& h) {
        skip(h, {2, 4});
        for (int step = 1; step <= 4; ++step) set_sample(h, "loss_scale", step, 1.0);
        set_sample(h, "loss_scale", 1, 65536.0);
      });
  add("the scale grows back after each step that is taken",
      Verdict::fail,
      R"({"step":4,"detail":{"steps":[4]}})",
      [](Healthy& h) {
        skip(h, {2, 4});
        set_sample(h, "loss_scale", 3, 65536.0);
      });
  add("a scale that falls of itself", Verdict::fail, R"({"step":2})", [](Healthy& h) {
    skip(h, {2});
    set_sample(h, "loss_scale", 2, 1024.0);
  });
  add("nobody knows the scale", Verdict::inconclusive, "{}", [](Healthy& h) {
    skip(h, {2});
    remove_if(h.evidence.samples, [](const auto& row) { return row.row.metric == "loss_scale"; });
  });
  add("skipped with finite gradients",
      Verdict::fail,
      R"({"step":1,"detail":{"steps":[1]}})",
      [](Healthy& h) { skip(h, {1}, "ok"); });
  add(
      "skipped without a loss scale",
      Verdict::fail,
      R"({"step":1})",
      [](Healthy& h) { skip(h, {1}); },
      nsa::Precision::bf16);
  add(
      "no value changed and nobody says so",
      Verdict::fail,
      R"({"step":3,"ranks":[1]})",
      [](Healthy& h) {
        skip(h, {});
        for (auto& row : h.evidence.updates) {
          if (row.process == 1 && row.row.step == 3) row.row.lost = row.row.wanted;
        }
        for (auto& row : h.evidence.samples) {
          if (row.process == 1 && row.row.step == 4 && row.row.metric == "lr") {
            row.row.value =
                harness::checks::scheduled_rate(h.evidence.the_case.scenario.training.optimizer, 3);
          }
        }
      },
      nsa::Precision::fp32);
  add("skipped past the scaler", Verdict::fail, R"({"step":3})", [](Healthy& h) {
    skip(h, {3});
    for (int rank = 0; rank < 2; ++rank) {
      for (int step = 1; step <= 4; ++step) {
        put(h.evidence.samples, rank, harness::Sample{"skipped_steps", step, 0.0});
      }
    }
  });
  add("only the norm is known", Verdict::pass, "{}", [](Healthy& h) {
    skip(h, {1});
    h.evidence.gradients.clear();
  });
  add("the scaler counts one", Verdict::fail, R"({"step":2,"ranks":[0]})", [](Healthy& h) {
    for (int step = 1; step <= 4; ++step) {
      const double count = step < 2 ? 0.0 : 1.0;
      put(h.evidence.samples, 0, harness::Sample{"skipped_steps", step, count});
    }
  });
}

inline void add_schedule(std::vector<Planted>& list) {
  using Rate = std::function<double(const nsa::OptimizerConfig&, int)>;
  const auto add = [&](const std::string& name,
                       const std::string& site,
                       int total,
                       int accumulate,
                       const Rate& rate,
                       const std::set<std::int64_t>& skipped = {}) {
    const auto make = [=](Healthy& h) {
      nsa::TrainingConfig& training = h.evidence.the_case.scenario.training;
      training.optimizer.total = total;
      training.accumulate = accumulate;
      training.precision = nsa::Precision::fp16;
      skip(h, skipped);
      for (int step = 1; step <= 4; ++step) {
        set_sample(h, "lr", step, rate(training.optimizer, step));
      }
    };
    list.push_back({"optimizer_sound", name, Verdict::fail, "SCHEDULE.LR", site, make, 2, 4});
  };
  using harness::checks::scheduled_rate;
  add("it counts micro-batches",
      R"({"step":1,"detail":{"law":"micro_steps"}})",
      40,
      4,
      [](const auto& config, int step) { return scheduled_rate(config, 4L * step); });
  add("it counts micro-batches from the first one on",
      R"({"step":2,"detail":{"law":"micro_steps"}})",
      40,
      4,
      [](const auto& config, int step) { return scheduled_rate(config, 4L * step - 3); });
  add("it advances on skipped steps",
      R"({"step":3,"detail":{"law":"skipped_steps","steps":[3,4]}})",
      40,
      1,
      [](const auto& config, int step) { return scheduled_rate(config, step); },
      {1});
  add("it never falls",
      R"({"step":3,"detail":{"law":"never_falls"}})",
      4,
      1,
      [](const auto& config, int) { return config.lr; });
  add("it is zero",
      R"({"step":2,"detail":{"law":"zero","found":0.0}})",
      40,
      1,
      [](const auto& config, int step) { return step == 1 ? config.lr : 0.0; });
}

}  // namespace fixtures
