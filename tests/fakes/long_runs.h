// The events of a training of the user's own, as ranks with the two lines tell them: healthy, or with one thing changed.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/evidence/evidence.h"
#include "harness/evidence/step_fold.h"
#include "harness/scenario/case_json.h"

namespace fakes {

struct LongRun {
  int ranks = 2;
  std::int64_t steps = 100;
  int micro_batches = 1;
  bool own_buffers = false;  // that nothing makes equal, as BatchNorm's without broadcast
  bool in_pairs = false;     // ranks 2n and 2n + 1 have a group of their own too
  bool tells_inputs = true;
  std::int64_t recorded_first = 3;   // steps that are recorded tensor by tensor
  std::int64_t recorded_every = 50;  // and of the later ones each of so many
};

inline harness::Case case_of_a_command() {
  const nlohmann::json document = {{"version", 1},
                                   {"scenario", "train"},
                                   {"kind", harness::kCommandKind},
                                   {"command", {{"argv", {"train"}}, {"directory", "/"}}},
                                   {"budget", {{"seconds", 100}}},
                                   {"checks",
                                    {"process_clean",
                                     "progress",
                                     "steps_agree",
                                     "gradients_arrived",
                                     "gradients_agree",
                                     "parameters_agree",
                                     "data_distinct",
                                     "collectives_agree",
                                     "finite"}}};
  const nlohmann::json stored = {{"id", ""},
                                 {"path", ""},
                                 {"profile", ""},
                                 {"data", nlohmann::json::array()},
                                 {"text", document.dump(2) + "\n"},
                                 {"scenario", document}};
  return harness::case_from_json(stored.dump(), "a test");
}

class ToldByARank {
 public:
  ToldByARank(const LongRun& run, int rank) : run_(run), rank_(rank), t_ms_(rank) {
    add(0, harness::Hello{});
    for (std::int64_t step = 1; step <= run.steps; ++step) tell(step);
    add(t_ms_ + 1, harness::Phase{"data", run.steps + 1});
  }

  std::vector<harness::Event> events;

 private:
  template <typename Row>
  void add(std::int64_t t_ms, const Row& row) {
    events.push_back(harness::Event::of(rank_, t_ms, row));
  }

  void tell(std::int64_t step) {
    const bool recorded = step <= run_.recorded_first || step % run_.recorded_every == 0;
    const std::string number = std::to_string(step);
    const auto next = [this] { return t_ms_ += 2; };
    add(next(), harness::Phase{"data", step});
    for (int micro = 0; micro < run_.micro_batches; ++micro) {
      add(next(), harness::Phase{"forward", step});
      if (recorded) {
        harness::Batch batch;
        batch.step = step;
        batch.micro = micro;
        batch.of_rank = rank_;
        batch.hash = "i" + number + "r" + std::to_string(rank_) + "m" + std::to_string(micro);
        add(t_ms_, batch);
      }
      add(next(), harness::Phase{"backward", step});
    }
    add(t_ms_, harness::Bucket{step, 0, 10, "Float", {0}});
    issue(step, "default", 10);
    if (run_.in_pairs) issue(step, "pair" + std::to_string(rank_ / 2), 1 + step % 7);
    if (step % 10 == 0) {
      harness::Heartbeat beat;
      beat.phase = "backward";
      beat.step = step;
      beat.counters.hooks = step;
      beat.longest_gap_ms = step % 30;
      add(t_ms_, beat);
    }
    if (recorded) add(next(), harness::Phase{"record", step});
    if (recorded) {
      harness::Gradient gradient;
      gradient.step = step;
      gradient.of_rank = rank_;
      gradient.param = "w";
      gradient.reachable = harness::Reach::yes;
      gradient.ready_count = 1;
      gradient.ready_order = 0;
      gradient.bucket = 0;
      gradient.state = "ok";
      gradient.l2 = gradient.absmax = 1.0;
      gradient.hash_before = "l" + number + "r" + std::to_string(rank_);
      gradient.hash_after = "g" + number;
      gradient.reduced = true;
      add(t_ms_, gradient);
    }
    add(next(), harness::Phase{"optimizer", step});
    if (recorded) add(t_ms_, harness::ParameterHash{step, "w", "p" + number});
    add(t_ms_, harness::Sample{"loss", step, 1.0 / static_cast<double>(step + rank_)});
    harness::StepDigest digest;
    digest.step = digest.reductions = step;
    digest.taken = 1;
    digest.forwards = digest.backwards = run_.micro_batches;
    digest.gradients = {"g" + number};
    digest.parameters = "p" + number;
    digest.frozen = "f";
    digest.buffers = "b" + number;
    digest.states = "s" + number;
    digest.states_of = "n" + std::to_string(step % 16);
    if (run_.own_buffers) digest.own_buffers = "o" + number + "r" + std::to_string(rank_);
    if (run_.tells_inputs) digest.inputs = "i" + number + "r" + std::to_string(rank_);
    digest.grad_norm = 1.0;
    add(t_ms_, digest);
  }

  void issue(std::int64_t step, const std::string& group, std::int64_t count) {
    const std::int64_t sequence = sequences_[group]++;
    add(t_ms_,
        harness::Collective{
            sequence, step, "backward", "allreduce", "sum", "Float", count, group, 0});
    add(t_ms_, harness::CollectiveDone{sequence, group});
  }

  const LongRun& run_;
  int rank_;
  std::int64_t t_ms_;
  std::map<std::string, std::int64_t> sequences_;
};

// Of all ranks one after the other in time, with their beginnings and good ends. `change` is called with what each rank tells.
using Change = std::function<void(int rank, std::vector<harness::Event>& events)>;
inline std::vector<harness::Event> events_of(const LongRun& run, const Change& change = {}) {
  using harness::Event;
  using harness::kController;
  std::vector<Event> all;
  std::int64_t end_ms = 0;
  for (int rank = 0; rank < run.ranks; ++rank) {
    all.push_back(Event::of(kController, 0, harness::Started{rank, 100 + rank}));
    std::vector<Event> told = ToldByARank(run, rank).events;
    if (change) change(rank, told);
    all.insert(all.end(), told.begin(), told.end());
    if (!told.empty()) end_ms = std::max(end_ms, told.back().t_ms);
  }
  std::stable_sort(
      all.begin(), all.end(), [](const Event& a, const Event& b) { return a.t_ms < b.t_ms; });
  for (int rank = 0; rank < run.ranks; ++rank) {
    harness::Exited exited;
    exited.process_ended = rank;
    exited.exit_code = 0;
    all.push_back(Event::of(kController, end_ms + 1, exited));
    all.push_back(Event::of(rank, end_ms + 1, harness::Done{}));
  }
  return all;
}

// What stays of them, folded `at_once` events at a time.
inline std::vector<harness::Event> folded(const std::vector<harness::Event>& events,
                                          std::size_t at_once,
                                          const harness::StepFold::Limits& limits) {
  harness::StepFold fold(limits);
  std::vector<harness::Event> kept;
  std::vector<harness::Event> open;
  for (std::size_t i = 0; i <= events.size(); i += at_once) {
    const std::size_t end = std::min(events.size(), i + at_once);
    open.insert(open.end(),
                events.begin() + static_cast<std::ptrdiff_t>(i),
                events.begin() + static_cast<std::ptrdiff_t>(end));
    auto result = fold.fold(std::move(open), i + at_once > events.size());
    kept.insert(kept.end(), result.settled.begin(), result.settled.end());
    open = std::move(result.open);
  }
  return kept;
}

inline harness::Evidence evidence_of(const std::vector<harness::Event>& events) {
  harness::Evidence evidence;
  evidence.the_case = case_of_a_command();
  for (const harness::Event& event : events) evidence.add(event);
  return evidence;
}

}  // namespace fakes
