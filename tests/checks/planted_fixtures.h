// What a run went through, or how it was set up: what many planted cases begin with. Those of the data name them (`use`).
#pragma once

#include <csignal>

#include "harness/checks/process/level_course.h"
#include "harness/checks/training/scheduled_rate.h"
#include "harness/evidence/evidence.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

// ---- ends and lives ------------------------------------------------------------------------------------------------

// A life before this one, which the controller ended because the scenario asked for it: ranks waited in collective 3 then,
// and had done the ones before.
inline void lived_before(Healthy& h) {
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    put(h.evidence.started, kController, harness::Started{rank, 50 + rank}, -90);
    put(h.evidence.phases, rank, harness::Phase{"save", 1}, -50);
    for (std::int64_t sequence = 0; sequence < 4; ++sequence) {
      put(h.evidence.collectives,
          rank,
          harness::Collective{sequence, 1, "backward", "allreduce", "sum", "Float", 4, "default"},
          -70);
      if (sequence == 3) continue;
      put(h.evidence.collectives_done, rank, harness::CollectiveDone{sequence, "default"}, -60);
    }
    harness::Exited exited;
    exited.process_ended = rank;
    exited.signal = SIGKILL;
    exited.by_controller = true;
    put(h.evidence.exited, kController, exited, -20);
  }
  put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed in step 1"}, -20);
}

// A command of the user's own; it has no twin.
inline void as_command(Healthy& h) {
  h.evidence.the_case.scenario.kind = harness::kCommandKind;
  h.without_twin();
  for (const int rank : {0, 1}) put(h.evidence.started, kController, harness::Started{rank, 1}, 1);
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

inline constexpr const char* kParts[] = {"moments", "schedule", "scaler", "rng", "data"};

// Four steps; a snapshot after the second, killed in the third, started again and gone on from the snapshot to the end.
inline void interrupt(Healthy& h) {
  constexpr std::int64_t kSecondLife = 200;
  constexpr std::int64_t kResumed = 210;
  put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed"}, kSecondLife);
  const auto state = [&](int process, std::int64_t step, std::int64_t t_ms) {
    for (const char* part : kParts) {
      const std::string hash = std::string(part) + " " + std::to_string(step);
      put(h.evidence.states, process, harness::StateHash{step, part, hash}, t_ms);
    }
  };
  for (auto& row : h.evidence.parameters) {
    if (row.row.step > 2) row.t_ms = 300;
  }
  const auto of_rank_0 = h.evidence.parameters;
  for (const auto& row : of_rank_0) {
    if (row.process == 0) put(h.evidence.parameters, kTwin, row.row, 950);
  }
  for (std::int64_t step = 1; step <= 4; ++step) state(kTwin, step, 950);
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 1; step <= 3; ++step) state(rank, step, 100);
    put(h.evidence.snapshots, rank, harness::SnapshotUse{2, "saved", "snapshot_2", 9}, 110);
    put(h.evidence.snapshots, rank, harness::SnapshotUse{2, "resumed", "snapshot_2", 9}, kResumed);
    for (std::int64_t step = 2; step <= 4; ++step) state(rank, step, kResumed + step);
  }
}

// Killed in the third step as well, and nothing was read back.
inline void start_from_scratch(Healthy& h) {
  interrupt(h);
  remove_if(h.evidence.snapshots, [](const auto& row) { return row.row.use == "resumed"; });
  for (auto& row : h.evidence.parameters) {
    if (row.process >= 0) row.t_ms = 300;
  }
}

// ---- standing still ------------------------------------------------------------------------------------------------

struct Look {
  std::string state = "S";
  std::int64_t cpu_ms = 0;
  std::vector<std::string> frames = {};
  std::string call = {};
  bool timed = false;
  std::int64_t switches = -1;
  std::int64_t children_cpu_ms = 0;
  std::int64_t disk_bytes = 0;
  int device_busy_percent = -1;
  std::string child = "cc1plus";
};

// Looks 0 and 1, and those without stacks that came after them.
inline void look_at(
    Healthy& h, int rank, const Look& first, const Look& second, std::vector<Look> later = {}) {
  int number = 0;
  later.insert(later.begin(), {first, second});
  for (const Look& look : later) {
    harness::Observation row;
    row.process_observed = rank;
    row.look = number;
    row.state = look.state;
    row.cpu_ms = look.cpu_ms;
    harness::ThreadStack stack;
    stack.thread = "main";
    stack.state = look.state;
    stack.frames = look.frames;
    stack.call = look.call;
    stack.timed = look.timed;
    stack.switches = look.switches;
    row.threads.push_back(stack);
    row.children_cpu_ms = look.children_cpu_ms;
    row.disk_bytes = look.disk_bytes;
    row.device_busy_percent = look.device_busy_percent;
    if (look.children_cpu_ms > 0) row.children.push_back({look.child, 77, "R", 0});
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

// A case that was suspected, looked at, and moved on and ended by itself.
inline void moved_again(Healthy& h) {
  put(h.evidence.suspects, kController, harness::Suspect{12'000, 10'000, 40}, 30'000);
  put(h.evidence.facts, kController, harness::Fact{"moved_again_ms", "9000"}, 39'000);
  for (const int process : {0, 1}) {
    harness::Heartbeat beat;
    beat.phase = "forward";
    beat.step = 1;
    beat.layer = process == 1 ? 2 : -1;
    put(h.evidence.heartbeats, process, beat, 29'000);
    beat.layer = 0;
    put(h.evidence.heartbeats, process, beat, 39'000);
  }
}

// The longest time in which the twin moved nothing.
inline void twin_needed(Healthy& h, std::int64_t longest_gap_ms) {
  harness::Heartbeat beat;
  beat.phase = "forward";
  beat.longest_gap_ms = longest_gap_ms;
  put(h.evidence.heartbeats, harness::kTwin, beat, 60'000);
}

const inline Look kInLock = {"S", 400, {"lock"}, "futex", false, 7};

// Ranks from `first` on wait in collective 2.
inline void waiting(Healthy& h, int first) {
  remove_if(h.evidence.collectives_done,
            [=](const auto& row) { return row.process >= first && row.row.sequence == 2; });
}

// `rank` waits so long for every batch of `steps` steps, and computes so long in each.
inline void wait_for_all_data(
    Healthy& h, int rank, int steps, std::int64_t waited_ms, std::int64_t forward_ms) {
  remove_if(h.evidence.phases, [=](const auto& row) { return row.process == rank; });
  std::int64_t now = 100;
  for (int step = 1; step <= steps; ++step) {
    put(h.evidence.phases, rank, harness::Phase{"data", step}, now);
    put(h.evidence.phases, rank, harness::Phase{"forward", step}, now += waited_ms);
    put(h.evidence.phases, rank, harness::Phase{"optimizer", step}, now += forward_ms);
    now += 1;
  }
}

// `rank` waits for its batch and then computes, in milliseconds.
inline void wait_for_data(Healthy& h, int rank, std::int64_t waited_ms, std::int64_t forward_ms) {
  remove_if(h.evidence.phases, [=](const auto& row) { return row.process == rank; });
  put(h.evidence.phases, rank, harness::Phase{"data", 1}, 100);
  put(h.evidence.phases, rank, harness::Phase{"forward", 1}, 100 + waited_ms);
  put(h.evidence.phases, rank, harness::Phase{"backward", 1}, 100 + waited_ms + forward_ms);
}

// What a process counted around its seams: [[seam, layer, calls, waits], ...].
inline void counts_waits(Healthy& h, int process, const std::string& waits) {
  put(h.evidence.facts, process, harness::Fact{"host_waits", waits}, 900);
}

// Both ranks and the twin wait as their implementations do: the twin ran twice as often.
inline void waits_as_ever(Healthy& h) {
  counts_waits(h, 0, R"([["attend_sel", 0, 4, 8], ["attend_sel", 1, 4, 8]])");
  counts_waits(h, harness::kTwin, R"([["attend_sel", 0, 8, 16], ["attend_sel", 1, 8, 16]])");
}

// One rank that loops in the driver of a card, until the case is out of its budget at `until_ms`; it moved last at 20 s.
inline void wait_for_kernel(
    Healthy& h,
    int busy_percent,
    std::int64_t until_ms,
    const std::string& caller = "cudaStreamSynchronize+0x5 (libcudart.so)") {
  stopped(h, "budget", "forward");
  h.evidence.stopped.front().t_ms = until_ms;
  for (auto& row : h.evidence.exited) row.t_ms = until_ms + 1'000;
  put(h.evidence.suspects, kController, harness::Suspect{12'000, 10'000, 40}, 30'000);
  // Without a caller the stack ends inside the driver.
  const auto look = [&](std::int64_t cpu_ms, const std::string& inner, const std::string& frame) {
    Look at = {"R", cpu_ms, {"clock_gettime (libc.so)", inner}, "running"};
    if (!frame.empty()) at.frames.insert(at.frames.end(), {frame, "item"});
    at.device_busy_percent = busy_percent;
    return at;
  };
  look_at(h,
          0,
          look(100, "libcuda.so.1+0x10", "cudaStreamSynchronize+0x5 (libcudart.so)"),
          look(1'900, "libcuda.so.1+0x20", caller));
}

// Ranks that record nothing stand still; the main thread of `far` ones waits with a limit of half an hour.
inline void still_command(Healthy& h, const std::vector<int>& far) {
  stopped(h, "still", "");
  as_command(h);
  h.evidence.hellos.clear();
  h.evidence.phases.clear();
  h.evidence.heartbeats.clear();
  h.evidence.collectives.clear();
  h.evidence.collectives_done.clear();
  for (int rank = 0; rank < 2; ++rank) look_at(h, rank, kInLock, kInLock);
  for (auto& row : h.evidence.observations) {
    const bool waits = std::find(far.begin(), far.end(), row.row.process_observed) != far.end();
    if (!waits) continue;
    row.row.threads.front().timed = true;
    row.row.threads.front().left_ms = 1'790'000;
  }
}

// ---- steps ---------------------------------------------------------------------------------------------------------

// Ranks with the two lines: each step has its phases and its loss.
inline void as_watched(Healthy& h) {
  as_command(h);
  const std::int64_t steps = h.evidence.the_case.scenario.training.steps;
  std::erase_if(h.evidence.samples, [](const auto& row) { return row.row.metric == "loss"; });
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    put(h.evidence.hellos, rank, harness::Hello{});
    for (std::int64_t step = 1; step <= steps; ++step) {
      put(h.evidence.phases, rank, harness::Phase{"backward", step}, 100 * step + 10);
      put(h.evidence.phases, rank, harness::Phase{"optimizer", step}, 100 * step + 20);
      put(h.evidence.samples, rank, harness::Sample{"loss", step, 2.5}, 100 * step + 30);
    }
  }
}

template <typename Row>
void without_step(std::vector<From<Row>>& rows, int rank, std::int64_t step) {
  std::erase_if(rows, [&](const auto& row) { return row.process == rank && row.row.step == step; });
}

// The others take the step, and the rank has nothing of its own in it.
inline void sits_out(Healthy& h, int rank, std::int64_t step) {
  without_step(h.evidence.gradients, rank, step);
  without_step(h.evidence.parameters, rank, step);
  without_step(h.evidence.batches, rank, step);
  put(h.evidence.facts, rank, harness::Fact{harness::kSatOutFact, std::to_string(step)});
}

// On every rank.
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

// ---- what ranks have in common -------------------------------------------------------------------------------------

// What a rank issued in a step, in place of what it had issued in it and later; each of `sizes` is a sum of so many numbers.
inline void issue(Healthy& h, int rank, const std::vector<std::int64_t>& sizes, int step = 1) {
  remove_if(h.evidence.collectives,
            [&](const auto& row) { return row.process == rank && row.row.step >= step; });
  remove_if(h.evidence.collectives,
            [&](const auto& row) { return row.process == rank && row.row.step == 0; });
  std::int64_t next = 0;
  for (const auto& row : h.evidence.collectives) next += row.process == rank ? 1 : 0;
  for (const std::int64_t size : sizes) {
    put(h.evidence.collectives,
        rank,
        harness::Collective{
            next++, step, "backward", "allreduce", "sum", "Float", size, "default"});
  }
}

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

// Two micro-batches a step, reduced in the second one.
inline void accumulate_two(Healthy& h) {
  h.evidence.the_case.scenario.training.accumulate = 2;
  for (auto& row : h.evidence.collectives) row.row.micro = row.row.op == "allreduce" ? 1 : 0;
}

// Of two steps, every rank and the twin in every layer.
inline void replicate(Healthy& h) {
  h.evidence.the_case.scenario.training.data.replicated = true;
  for (int step = 1; step <= 2; ++step) {
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      const std::string name = std::to_string(step) + "." + std::to_string(layer);
      for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
        const harness::BlockChoice row{step, layer, rank, "scores " + name, "blocks " + name};
        put(h.evidence.block_choices, rank, row);
        put(h.evidence.block_choices, harness::kTwin, row);
      }
    }
  }
}

// These layers are checkpointed, and computed again as they were computed forward.
inline void checkpoint(Healthy& h, const std::vector<int>& layers) {
  harness::Scenario& scenario = h.evidence.the_case.scenario;
  scenario.parallel.checkpoint_layers = layers;
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    for (std::int64_t step = 1; step <= scenario.training.steps; ++step) {
      for (const int layer : layers) {
        harness::Recompute row;
        row.step = step;
        row.layer = layer;
        row.mode = "functional";
        row.dtype_forward = row.dtype_recompute = "Float";
        row.blocks_forward = row.blocks_recompute = "blocks " + std::to_string(layer);
        row.rows = 64;
        put(h.evidence.recomputes, rank, row);
      }
    }
  }
}

// From `layer` down the local gradients of rank 1 are others than the twin's.
inline void gradients_differ(Healthy& h, int layer, float by) {
  Tensors tensors = h.locals(1);
  for (auto& [name, values] : tensors) {
    const int of = harness::checks::layer_of(name);
    if (name == "embed.weight" || (of >= 0 && of <= layer)) values[3] += by * values[3];
  }
  h.write_gradients(1, "local_gradients", 1, 1, tensors);
}

// The local gradients of two parameters of a rank stand in each other's place.
inline void gradients_exchanged(Healthy& h,
                                int rank,
                                const std::string& one,
                                const std::string& other) {
  Tensors tensors = h.locals(rank);
  std::swap(tensors.at(one), tensors.at(other));
  h.write_gradients(rank, "local_gradients", 1, rank, tensors);
}

// ---- routes --------------------------------------------------------------------------------------------------------

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

// What was asked for ran.
inline void ask_for(Healthy& h, const std::string& seam, const std::string& name) {
  h.evidence.the_case.scenario.route[seam] = name;
  for (auto& row : h.evidence.routes) {
    if (row.row.seam == seam) row.row.effective = name;
  }
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

// ---- levels of observation -----------------------------------------------------------------------------------------

// The case is at level `own`; at level `other` it showed the same.
inline harness::OtherLevel& as_at(Healthy& h, int own, int other) {
  h.evidence.the_case.scenario.observe = own;
  harness::OtherLevel shown = harness::checks::shown_at_level(h.evidence).value();
  shown.observe = other;
  put(h.evidence.other_levels, kController, shown, 1);
  return h.evidence.other_levels.back().row;
}

// What level 1 leaves of the record.
inline void record_events_only(Healthy& h) {
  h.evidence.the_case.scenario.observe = harness::kWatchEvents;
  h.without_twin();
  const std::int64_t last = h.evidence.the_case.scenario.training.steps;
  remove_if(h.evidence.parameters, [=](const auto& row) { return row.row.step < last; });
  h.evidence.artefacts.clear();
  h.evidence.batches.clear();
  h.evidence.updates.clear();
  for (auto& row : h.evidence.gradients) {
    row.row.state = harness::kUnread;
    row.row.l2 = row.row.absmax = 0.0;
    row.row.hash_before = row.row.hash_after = "";
  }
}

// What level 0 leaves.
inline void record_processes_only(Healthy& h) {
  record_events_only(h);
  h.evidence.the_case.scenario.observe = harness::kWatchProcesses;
  h.evidence.gradients.clear();
  h.evidence.buckets.clear();
  h.evidence.collectives.clear();
  h.evidence.collectives_done.clear();
  h.evidence.samples.clear();
  h.evidence.routes.clear();
}

// ---- sweeps --------------------------------------------------------------------------------------------------------

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

}  // namespace fixtures
