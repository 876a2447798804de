// Defects that only many steps show: losses and memory.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

using OfStep = std::function<double(int)>;

// `steps` steps of one rank with these samples and nothing else.
inline void sample_steps(Healthy& h, int steps, const std::map<std::string, OfStep>& metrics) {
  h.evidence.the_case.scenario.training.steps = steps;
  h.evidence.samples.clear();
  for (int step = 1; step <= steps; ++step) {
    for (const auto& [metric, of_step] : metrics) {
      put(h.evidence.samples, 0, harness::Sample{metric, step, of_step(step)});
    }
  }
}

// A number in -1..1 that looks drawn, the same everywhere.
inline double noise(int step) {
  return std::sin(12.9898 * step * step);
}
inline OfStep always(double value) {
  return [=](int) { return value; };
}

inline void add_loss_floor(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const OfStep& loss,
                       double tokens,
                       const OfStep& floor = always(1.2)) {
    const auto make = [=](Healthy& h) {
      sample_steps(h,
                   40,
                   {{"loss", loss},
                    {"source_floor", floor},
                    {"floor_tokens", always(tokens)},
                    {"floor_stderr", always(0.05)}});
    };
    list.push_back({"loss_floor", name, verdict, code, site, make, 1, 1});
  };
  add(
      "healthy", Verdict::pass, "", "{}", [](int step) { return 1.2 + 4.0 / step; }, 500.0);
  add(
      "at the floor",
      Verdict::pass,
      "",
      "{}",
      [](int step) { return 1.2 + 0.001 * noise(step); },
      500.0);
  add(
      "far below the floor for a few tokens",
      Verdict::pass,
      "",
      "{}",
      [](int step) { return step == 7 ? 0.2 : 1.3; },
      10.0);
  add(
      "labels that are not shifted",
      Verdict::fail,
      "LOSS.BELOW_FLOOR",
      R"({"detail":{"first_step":4}})",
      [](int step) { return std::max(0.01, 3.0 - 0.5 * step); },
      500.0);
  add(
      "a little below the floor for long",
      Verdict::fail,
      "LOSS.BELOW_FLOOR",
      "{}",
      [](int step) { return 1.1 + 0.01 * noise(step); },
      3000.0);
  add("text knows no floor",
      Verdict::inconclusive,
      "",
      "{}",
      always(1.0),
      500.0,
      always(std::nan("")));
  // ln 16 = 2.77: the next token repeats one that the window of a single layer does not reach.
  const auto window_alone = [](std::int64_t layers, double loss) {
    return [=](Healthy& h) {
      harness::Scenario& scenario = h.evidence.the_case.scenario;
      scenario.training.data.source = nsa::DataConfig::Source::long_range;
      scenario.training.data.distance = 33;
      scenario.attention.gate = "win";
      scenario.model.n_layers = layers;
      scenario.model.w = 32;
      scenario.model.vocab_size = 16;
      sample_steps(h,
                   40,
                   {{"loss", [=](int step) { return loss + 0.001 * noise(step); }},
                    {"source_floor", always(0.5)},
                    {"floor_tokens", always(3000.0)},
                    {"floor_stderr", always(0.01)}});
    };
  };
  list.push_back({"loss_floor",
                  "a window that cannot see the answer, and does not know it",
                  Verdict::pass,
                  "",
                  "{}",
                  window_alone(1, 2.78),
                  1,
                  1});
  list.push_back({"loss_floor",
                  "a window that cannot see the answer, and knows it",
                  Verdict::fail,
                  "LOSS.BELOW_FLOOR",
                  "{}",
                  window_alone(1, 2.5),
                  1,
                  1});
  list.push_back({"loss_floor",
                  "two windows that reach the answer together",
                  Verdict::pass,
                  "",
                  "{}",
                  window_alone(2, 2.5),
                  1,
                  1});
  add(
      "a loss that is no number",
      Verdict::inconclusive,
      "",
      "{}",
      [](int step) { return step == 3 ? std::nan("") : 1.5; },
      500.0);
}

inline void add_loss_falls(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       int steps,
                       const OfStep& loss,
                       const std::map<std::string, OfStep>& more = {}) {
    const auto make = [=](Healthy& h) {
      std::map<std::string, OfStep> metrics = more;
      metrics["loss"] = loss;
      sample_steps(h, steps, metrics);
    };
    const std::string code = verdict == Verdict::fail ? "LOSS.NOT_FALLING" : "";
    list.push_back({"loss_falls", name, verdict, code, "{}", make, 1, 1});
  };
  const auto flat = [](int step) { return 5.5 + 0.02 * noise(step); };
  add("healthy", Verdict::pass, 40, [=](int step) { return flat(step) - 0.02 * step; });
  add("it stays", Verdict::fail, 40, flat);
  add("it rises", Verdict::fail, 20, [=](int step) { return flat(step) + 0.02 * step; });
  add("no number", Verdict::fail, 20, always(std::nan("")));
  add("at the floor from the start", Verdict::pass, 40, flat, {{"source_floor", [=](int step) {
                                                                  return flat(step) - 0.01;
                                                                }}});
  // The loss itself does not fall: what is predicted becomes harder.
  add("towards a floor that rises", Verdict::pass, 40, always(5.5), {{"source_floor", [](int step) {
                                                                        return 4.0 + 0.02 * step;
                                                                      }}});
  const auto above = [](double nats) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.training.reaches_floor = true;
      sample_steps(h,
                   40,
                   {{"loss", [=](int step) { return 1.2 + nats + 0.002 * (40 - step); }},
                    {"source_floor", always(1.2)}});
    };
  };
  list.push_back({"loss_falls", "reaches its floor", Verdict::pass, "", "{}", above(0.0), 1, 1});
  list.push_back({"loss_falls",
                  "falls, but not to the floor that it shall reach",
                  Verdict::fail,
                  "LOSS.NOT_FALLING",
                  "{}",
                  above(0.1),
                  1,
                  1});
  const auto nothing_to_reach = [=](Healthy& h) {
    above(0.0)(h);
    std::erase_if(h.evidence.samples,
                  [](const auto& row) { return row.row.metric == "source_floor"; });
  };
  list.push_back({"loss_falls",
                  "shall reach a floor that nobody knows",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  nothing_to_reach,
                  1,
                  1});
  add("too few steps", Verdict::inconclusive, 19, [=](int step) { return flat(step) - step; });
  list.push_back({"loss_falls",
                  "a loss is missing",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    sample_steps(h, 24, {{"loss", [](int step) { return 5.0 - 0.1 * step; }}});
                    h.evidence.samples.pop_back();
                  },
                  1,
                  1});
}

inline void add_memory(std::vector<Planted>& list) {
  constexpr double kMib = 1024.0 * 1024.0;
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& site,
                       int steps,
                       const OfStep& mib,
                       double requires_gib = 0.0,
                       const OfStep& tensor_bytes = always(5e6)) {
    const auto make = [=](Healthy& h) {
      h.evidence.the_case.scenario.requires_memory_gib = requires_gib;
      sample_steps(h,
                   steps,
                   {{"rss_bytes", [=](int step) { return kMib * mib(step); }},
                    {"rss_peak_bytes", [=](int step) { return kMib * (mib(step) + 50.0); }},
                    {"tensor_peak_bytes", tensor_bytes}});
    };
    const std::string code = verdict == Verdict::fail ? "MEM.BUDGET" : "";
    list.push_back({"within_budget", name, verdict, code, site, make, 1, 1});
  };
  const auto settled = [](int step) { return 400.0 - 100.0 / step + 2.0 * noise(step); };
  add("healthy", Verdict::pass, "{}", 60, settled, 1.0);
  add("a leak",
      Verdict::fail,
      R"({"ranks":[0],"detail":{"growth_bytes_per_step":4194304}})",
      60,
      [](int step) { return 400.0 + 4.0 * step; });
  add("a leak under noise", Verdict::fail, R"({"ranks":[0]})", 100, [=](int step) {
    return settled(step) + 1.5 * step;
  });
  add("one allocation late", Verdict::pass, "{}", 60, [=](int step) {
    return 400.0 + (step > 44 ? 60.0 : 0.0);
  });
  add("growth of next to nothing", Verdict::pass, "{}", 60, [](int step) {
    return 400.0 + 0.1 * step;
  });
  add("a peak above what is required",
      Verdict::fail,
      R"({"detail":{"limit_bytes":429496729.6}})",
      60,
      settled,
      0.4);
  add("too few steps", Verdict::inconclusive, "{}", 49, settled);

  // Tensors alone: resident memory shows nothing of it.
  const auto leaks = [&](const std::string& name, int steps, const OfStep& bytes, double growth) {
    const std::string site =
        R"({"ranks":[0],"detail":{"growth_bytes_per_step":)" + std::to_string(growth) + "}}";
    add(name, Verdict::fail, site, steps, settled, 0.0, bytes);
  };
  leaks(
      "tensors of eight bytes a step", 50, [](int step) { return 5e6 + 8.0 * step; }, 8.0);
  // Every fourth step a transport has freed late, or early.
  const auto late = [](int step) { return step % 4 == 1 ? -2e5 : 0.0; };
  leaks(
      "tensors kept under a transport that frees when it gets to it",
      80,
      [=](int step) { return 5e6 + 1e5 * step + late(step); },
      1e5);
  const auto holds = [&](const std::string& name, const OfStep& bytes) {
    add(name, Verdict::pass, "{}", 100, settled, 0.0, bytes);
  };
  holds("a transport that frees when it gets to it",
        [](int step) { return 5e6 + 2e5 * noise(step); });
  holds("tensors that settle in the first steps", [](int step) { return step < 5 ? 4e6 : 5e6; });
  holds("tensors of one more buffer late", [](int step) { return step > 90 ? 6e6 : 5e6; });
  holds("tensors of ever more buffers in half of the time",
        [](int step) { return 5e6 + 1e5 * std::min(step, 75); });
  holds("tensors of another life", [](int step) { return step > 70 ? 4e6 : 5e6; });
  list.push_back(
      {"within_budget",
       "tensors that nobody counted",
       Verdict::inconclusive,
       "",
       "{}",
       [=](Healthy& h) {
         sample_steps(h, 60, {{"rss_bytes", always(4e8)}, {"rss_peak_bytes", always(4e8)}});
       },
       1,
       1});
  list.push_back({"within_budget",
                  "no samples",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) { sample_steps(h, 60, {}); },
                  1,
                  1});
}

}  // namespace fixtures
