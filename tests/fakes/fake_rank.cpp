// A worker without LibTorch, in any mood that a real one has been seen in. The mood is FAKE_MOOD_<rank> or FAKE_MOOD_TWIN
// or FAKE_MOOD of its environment; without one it does all it was asked.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

#include "harness/evidence/event.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "tests/fakes/waits.h"

namespace {

using harness::Event;
using harness::Heartbeat;

constexpr int kEventFd = 3;
constexpr int kPeriodMs = 50;  // of heartbeats: short, since the tests' thresholds are

struct Rank {
  int process = 0;
  std::int64_t origin_ms = 0;
  std::atomic<std::int64_t> moved = 0;
  int life = 0;
  std::string case_file;
  std::string folder;  // the case's

  [[nodiscard]] std::int64_t now_ms() const {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 - origin_ms;
  }

  static void write_raw(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = write(kEventFd, bytes.data() + sent, bytes.size() - sent);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) _exit(74);
      sent += static_cast<std::size_t>(n);
    }
  }

  template <typename Row>
  void record(const Row& row) const {
    write_raw(encode_event(Event::of(process, now_ms(), row)) + "\n");
  }

  void beat() const {
    Heartbeat beat;
    beat.phase = "forward";
    beat.step = 1;
    beat.counters.operators_forward = moved;
    beat.longest_gap_ms = 1;
    record(beat);
  }

  void hello() const {
    harness::Hello hello;
    hello.pid = getpid();
    hello.backend = "fake";
    record(hello);
    record(harness::Phase{"forward", 1});
  }

  // Beats until told to end, and answers requests for stacks in the main thread's name; the counters move or stand still.
  void live(bool moving, const std::atomic<bool>& ended) {
    sigset_t set{};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    const timespec period{0, kPeriodMs * 1'000'000};
    while (!ended) {
      const int signal = sigtimedwait(&set, nullptr, &period);
      if (moving) ++moved;
      beat();
      if (signal != SIGUSR1) continue;
      harness::Observation answer;
      answer.process_observed = 99;  // a lie: the controller knows better
      answer.look = 7;
      harness::ThreadStack main_thread;
      main_thread.thread = "fake_rank " + std::to_string(getpid());
      main_thread.frames = {"innermost", "main"};
      answer.threads.push_back(main_thread);
      record(answer);
    }
  }

  // As a worker: another thread beats while the main one does something.
  template <typename Action>
  void meanwhile(bool moving, const Action& action) {
    std::atomic<bool> ended = false;
    std::thread beats([&] { live(moving, ended); });
    action();
    ended = true;
    beats.join();
  }

  // For ever, waiting without a limit.
  void stand(bool moving) {
    meanwhile(moving, [] {
      while (true) pause();
    });
  }

  void work() {
    for (int i = 0; i < 3; ++i) {
      ++moved;
      beat();
      record(harness::Sample{"loss", i + 1, 1.0 / (i + 1)});
    }
  }

  void done() const { record(harness::Done{}); }
};

int end_by(int signal) {
  std::signal(signal, SIG_DFL);
  kill(getpid(), signal);
  pause();
  return 0;
}

void wait_for_session_of(pid_t child) {
  constexpr int kLooks = 5'000;  // it is there in microseconds
  for (int i = 0; i < kLooks && getsid(child) != child; ++i) usleep(1'000);
}

void start_grandchild(bool in_own_session = false) {
  const pid_t child = fork();
  if (child != 0) {
    std::cout << "grandchild " << child << std::endl;
    if (in_own_session) wait_for_session_of(child);
    return;
  }
  if (in_own_session) setsid();
  std::signal(SIGTERM, SIG_IGN);
  while (true) pause();
}

// In a session of its own, and nothing is left of the environment.
void start_bare_grandchild() {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    execle("/bin/sleep", "sleep", "600", nullptr, nullptr);
    _exit(1);
  }
  std::cout << "grandchild " << child << std::endl;
  constexpr int kLooks = 5'000;
  for (int i = 0; i < kLooks; ++i) {
    std::ifstream environment("/proc/" + std::to_string(child) + "/environ");
    if (environment.peek() == std::ifstream::traits_type::eof()) return;
    usleep(1'000);
  }
}

// Processes of which each starts the next one and ends, for a minute at most.
void start_chain() {
  const pid_t first = fork();
  if (first != 0) return wait_for_session_of(first);
  setsid();
  prctl(PR_SET_NAME, "chain_of_fakes");
  constexpr int kLinks = 60'000;
  for (int i = 0; i < kLinks; ++i) {
    usleep(500);
    if (fork() != 0) _exit(0);
  }
  _exit(0);
}

void flood(Rank& rank) {
  int count = 100'000;
  if (const char* text = std::getenv("FAKE_COUNT")) count = std::atoi(text);
  for (int i = 0; i < count; ++i)
    rank.record(harness::Sample{"flood", i + 1, static_cast<double>(i)});
}

void lie(Rank& rank) {
  Event other = Event::of(5, 0, harness::Sample{"liar", 1, 1.0});
  rank.write_raw(encode_event(other) + "\n");
  other = Event::of(rank.process, std::int64_t{1} << 50, harness::Sample{"future", 1, 1.0});
  rank.write_raw(encode_event(other) + "\n");
  rank.record(harness::Exited{});
  rank.record(harness::Stopped{"still", "", 0});
}

// As a worker's last heartbeat; how many operators ran is what a test chooses.
void tell_operators(Rank& rank) {
  const char* text = std::getenv("FAKE_COUNT");
  harness::Heartbeat beat;
  beat.phase = "done";
  beat.counters.operators_forward = text != nullptr ? std::atoi(text) : 100;
  rank.record(beat);
}

int wanted_ms() {
  const char* text = std::getenv("FAKE_MS");
  return text != nullptr ? std::atoi(text) : 1'000;
}

// One that joined a collective and waits for the others.
void wait_in_collective(Rank& rank) {
  harness::Collective row;
  row.sequence = 1;
  row.step = 1;
  row.op = "allreduce";
  row.group = "default";
  rank.record(row);
  rank.stand(false);
}

int does_and_ends(Rank& rank, const std::function<void()>& action) {
  rank.meanwhile(false, action);
  rank.work();
  rank.done();
  return 0;
}

void load_slowly(const Rank& rank) {
  const std::int64_t until = rank.now_ms() + 2'000;
  while (rank.now_ms() < until) {
  }
}

// Four steps with a snapshot after every second one; another life goes on after the first snapshot. In its first life it
// stays for ever where it is told to.
void train(Rank& rank, const std::string& stall_phase = "", int stall_step = 0) {
  constexpr int kPauseUs = 10'000;
  for (int step = rank.life > 0 ? 3 : 1; step <= 4; ++step) {
    for (const char* phase : {"data", "forward", "backward", "optimizer", "save"}) {
      if (phase == std::string("save") && step % 2 != 0) continue;
      rank.record(harness::Phase{phase, step});
      ++rank.moved;
      rank.beat();
      if (rank.life == 0 && phase == stall_phase && step == stall_step) rank.stand(true);
      usleep(kPauseUs);
    }
  }
  rank.done();
}

// Dies where the layers that are checkpointed hold all of FAKE_BREAKS ("3 7").
int break_with_layers(Rank& rank) {
  std::ifstream file(rank.case_file);
  const auto document = nlohmann::json::parse(file);
  const auto layers = document.at("scenario").at("parallel").at("checkpoint").at("layers");
  std::istringstream wanted(std::getenv("FAKE_BREAKS"));
  bool all = true;
  for (int layer = 0; wanted >> layer;) {
    all =
        all && layers.is_array() && std::find(layers.begin(), layers.end(), layer) != layers.end();
  }
  rank.record(harness::Sample{"rss_peak_bytes", 1, 1e9 - 1e6 * static_cast<double>(layers.size())});
  if (all) return end_by(SIGSEGV);
  return rank.done(), 0;
}

// One layer as check `causal` wants it, in two passes that are the same before position 12 of 16.
void write_layer(const Rank& rank, const std::string& name, bool perturbed) {
  const std::string folder = "rank_" + std::to_string(rank.process) + "/step_1";
  std::filesystem::create_directories(rank.folder + "/" + folder);
  const std::string path = folder + "/" + name + "_0.safetensors";  // of layer 0
  constexpr std::size_t kRows = 16;
  const std::vector<double> zeros(kRows, 0.0);
  std::vector<double> x = zeros;
  if (perturbed) std::fill(x.begin() + 12, x.end(), 1.0);
  std::vector<nsa::TensorToWrite> tensors;
  const auto add = [&](const char* tensor, std::vector<std::int64_t> shape, const auto& values) {
    tensors.push_back(
        {tensor, nsa::DType::f64, std::move(shape), std::as_bytes(std::span(values))});
  };
  add("x", {1, kRows, 1}, x);
  add("dx", {1, kRows, 1}, zeros);
  add("y", {1, kRows, 1}, zeros);
  for (const char* tensor : {"q",
                             "k_raw",
                             "v_raw",
                             "k_sel",
                             "v_sel",
                             "k_win",
                             "v_win",
                             "k_cmp",
                             "v_cmp",
                             "p_grp",
                             "blocks",
                             "o_cmp",
                             "o_sel",
                             "o_win",
                             "gate"}) {
    add(tensor, {1, 1, kRows, 1}, zeros);
  }
  nsa::write_safetensors(rank.folder + "/" + path, tensors);
  harness::Artefact artefact;
  artefact.step = 1;
  artefact.name = name;
  artefact.layer = 0;
  artefact.path = path;
  artefact.bytes = nsa::file_size(rank.folder + "/" + path);
  artefact.hash = nsa::hash_file(rank.folder + "/" + path);
  rank.record(artefact);
}

void write_two_passes(const Rank& rank) {
  rank.record(harness::Sample{"perturbed_from", 1, 12.0});
  write_layer(rank, "attention_layer", false);
  write_layer(rank, "attention_layer_perturbed", true);
}

// Artefacts that are none of its own: the controller deletes what passing cases recorded.
void name_others(const Rank& rank) {
  for (const char* path :
       {"events.jsonl", "case.json", "verdicts.jsonl", "../run.json", "rank_9/x.safetensors"}) {
    harness::Artefact artefact;
    artefact.path = path;
    rank.record(artefact);
  }
}

int cannot_write(const Rank& rank, const std::string& why) {
  rank.record(harness::WorkerError{"nsa::Error", "cannot write t: " + why, "backward", 1});
  return 1;
}

using Mood = std::function<int(Rank&)>;

// What the mood does after hello; the value is the exit code.
const std::map<std::string, Mood>& moods() {
  static const std::map<std::string, Mood> kMoods = {
      {"ok", [](Rank& r) { return r.work(), r.done(), 0; }},
      {"counts", [](Rank& r) { return r.work(), tell_operators(r), r.done(), 0; }},
      {"crash", [](Rank&) { return end_by(SIGSEGV); }},
      {"killed", [](Rank&) { return end_by(SIGKILL); }},
      {"exit7", [](Rank&) { return 7; }},
      {"done_exit7", [](Rank& r) { return r.done(), 7; }},
      {"error",
       [](Rank& r) {
         return r.record(harness::WorkerError{"E", "what", "forward", 1}), 1;
       }},
      {"hang", [](Rank& r) { return r.stand(false), 0; }},
      {"slow", [](Rank& r) { return r.stand(true), 0; }},
      {"stopped", [](Rank&) { return raise(SIGSTOP), 0; }},
      {"flood", [](Rank& r) { return flood(r), r.done(), 0; }},
      {"garbage",
       [](Rank& r) { return r.write_raw("\xff\xfe garbage\n{}\n\n{\"a\":1}\n"), r.done(), 0; }},
      {"endless_garbage",
       [](Rank& r) {
         for (int i = 0; i < 500; ++i) r.write_raw("garbage\n");
         return r.done(), 0;
       }},
      {"half_line", [](Rank& r) { return r.done(), r.write_raw("{\"process\":0,"), 0; }},
      {"early", [](Rank& r) { return r.work(), 0; }},
      {"ignores_term", [](Rank& r) { return std::signal(SIGTERM, SIG_IGN), r.stand(false), 0; }},
      {"grandchild", [](Rank& r) { return start_grandchild(), r.done(), 0; }},
      {"grandchild_apart", [](Rank& r) { return start_grandchild(true), r.done(), 0; }},
      {"grandchild_apart_killed", [](Rank&) { return start_grandchild(true), end_by(SIGKILL); }},
      {"grandchild_bare", [](Rank& r) { return start_bare_grandchild(), r.done(), 0; }},
      {"chain", [](Rank& r) { return start_chain(), r.done(), 0; }},
      {"grandchild_hang", [](Rank& r) { return start_grandchild(), r.stand(false), 0; }},
      {"closes", [](Rank& r) { return r.work(), close(kEventFd), 0; }},
      {"closes_hang", [](Rank&) { return close(kEventFd), pause(); }},
      {"huge_line",
       [](Rank& r) { return r.write_raw(std::string(10 << 20, 'x') + "\n"), r.done(), 0; }},
      {"liar", [](Rank& r) { return lie(r), r.done(), 0; }},
      {"spin",
       [](Rank&) {
         volatile std::uint64_t turns = 0;
         while (true) turns = turns + 1;
         return 0;
       }},
      {"sleeps", [](Rank& r) { return does_and_ends(r, [] { fakes::sleep_once(wanted_ms()); }); }},
      {"computes", [](Rank& r) { return does_and_ends(r, [] { fakes::spin(wanted_ms()); }); }},
      {"compiles",
       [](Rank& r) { return does_and_ends(r, [] { fakes::start_child_and_wait(wanted_ms()); }); }},
      {"polls", [](Rank& r) { return does_and_ends(r, &fakes::poll_for_ever); }},
      {"in_lock", [](Rank& r) { return does_and_ends(r, &fakes::wait_for_lock); }},
      {"in_socket", [](Rank& r) { return does_and_ends(r, &fakes::wait_for_answer); }},
      {"stops_itself", [](Rank& r) { return does_and_ends(r, [] { raise(SIGSTOP); }); }},
      {"in_collective", [](Rank& r) { return wait_in_collective(r), 0; }},
      {"trains", [](Rank& r) { return train(r), 0; }},
      {"stalls_in_save", [](Rank& r) { return train(r, "save", 4), 0; }},
      {"stalls_in_forward", [](Rank& r) { return train(r, "forward", 3), 0; }},
      {"dies_in_save",
       [](Rank& r) {
         return r.record(harness::Phase{"save", 4}), end_by(SIGSEGV);
       }},
      {"breaks_with_layers", &break_with_layers},
      {"two_passes", [](Rank& r) { return write_two_passes(r), r.done(), 0; }},
      {"names_others", [](Rank& r) { return name_others(r), r.done(), 0; }},
      {"disk_full", [](Rank& r) { return cannot_write(r, "No space left on device"); }},
      {"quota_full", [](Rank& r) { return cannot_write(r, "Disk quota exceeded"); }},
      {"late", [](Rank& r) { return usleep(300'000), r.work(), r.done(), 0; }},
  };
  return kMoods;
}

std::string mood_of(int process) {
  const std::string name = process == harness::kTwin ? "TWIN" : std::to_string(process);
  if (const char* own = std::getenv(("FAKE_MOOD_" + name).c_str())) return own;
  const char* all = std::getenv("FAKE_MOOD");
  return all != nullptr && process != harness::kTwin ? all : "ok";
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Rank rank;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--twin") rank.process = harness::kTwin;
    if (name == "--rank") rank.process = std::atoi(argv[i + 1]);
    if (name == "--life") rank.life = std::atoi(argv[i + 1]);
    if (name == "--case") rank.case_file = argv[i + 1];
    if (name == "--folder") rank.folder = argv[i + 1];
    if (name == "--clock-origin-ms") rank.origin_ms = std::atoll(argv[i + 1]);
    std::cout << name << "\n";
  }
  std::cout.flush();
  const std::string mood = mood_of(rank.process);
  if (mood == "mute") return 0;
  if (mood == "mute_hang") return pause();
  if (mood == "loads_slowly") load_slowly(rank);
  rank.hello();
  const auto at = moods().find(mood);
  return at == moods().end() ? moods().at("ok")(rank) : at->second(rank);
}
