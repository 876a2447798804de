// A controller small enough to be killed at any moment.
//   fake_controller run DB FOLDER WORKER     a run of fake ranks, recorded into the store, again and again
//   fake_controller write DB NAME COUNT      one run of COUNT cases, each planned, begun, ended and judged
//   fake_controller timed DB MS NOISE        one run of one case whose step took MS, times 1 up to 1 + NOISE, beside a control
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <unistd.h>

#include "harness/run/runner.h"
#include "harness/store/store.h"
#include "nsa/base/error.h"
#include "tests/store/store_support.h"

namespace {

using namespace harness;  // NOLINT(google-build-using-namespace): a test program

int write_cases(const std::string& path, const std::string& name, int count) {
  const auto store = Store::open(path, true);
  const std::int64_t run = store->begin_run(test::a_run(name));
  std::cout << "begun" << std::endl;
  for (int i = 0; i < count; ++i) {
    const std::int64_t row = store->plan_case(test::a_case(run, i, "fake"));
    store->begin_case(row, i + 1);
    Digest digest;
    digest.recorded = true;
    digest.metrics = {{"n", static_cast<double>(i)}};
    store->finish_case(row, i, digest);
    store->add_judgement(row, test::stored(Outcome::pass));
  }
  store->finish_run(run, 0, true, 2'000);
  return 0;
}

int write_timed(const std::string& path, double step_ms, double noise) {
  const auto store = Store::open(path, true);
  const std::int64_t run = store->begin_run(test::a_run("timed"));
  const std::int64_t row = store->plan_case(test::a_case(run, 0, "timed"));
  store->begin_case(row, 1);
  // By the name of the file, so that a search gives the same every time.
  const std::string file = std::filesystem::path(path).filename();
  std::seed_seq seed(file.begin(), file.end());
  std::mt19937 random(seed);
  Digest digest;
  digest.recorded = true;
  digest.metrics = {
      {kControlMs, 10.0},
      {kStepMs, step_ms * (1.0 + noise * std::uniform_real_distribution<>()(random))}};
  store->finish_case(row, 1.0, digest);
  store->add_judgement(row, test::stored(Outcome::pass));
  store->finish_run(run, 0, true, 2'000);
  return 0;
}

int run_forever(const std::string& path, const std::string& folder, const std::string& worker) {
  for (int i = 0;; ++i) {
    const auto store = Store::open(path, true);
    const std::int64_t run =
        store->begin_run(test::a_run("run-" + std::to_string(getpid()) + "-" + std::to_string(i)));
    const std::int64_t row = store->plan_case(test::a_case(run, 0, "fake"));
    RunnerOptions options;
    options.worker = worker;
    options.folder = folder + "/" + std::to_string(i);
    options.environment = {
        "ASAN_OPTIONS=detect_leaks=0", "FAKE_MOOD=slow", "FAKE_MOOD_1=flood", "FAKE_MOOD_2=hang"};
    std::filesystem::create_directories(options.folder);
    Case content = test::valid_case();
    content.scenario.parallel.ranks = 3;
    content.scenario.budget_seconds = 2.0;
    RunnerHooks hooks;
    hooks.on_event = [&](const Event& event) {
      if (event.kind == Started::kKind)
        std::cout << "started " << event.body.at("pid") << std::endl;
    };
    (void)run_case(content, options, hooks);
    store->finish_case(row, 1.0, {});
    store->finish_run(run, 0, true, 2'000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string verb = argc == 5 ? argv[1] : "";
    if (verb == "run") return run_forever(argv[2], argv[3], argv[4]);
    if (verb == "timed") return write_timed(argv[2], std::atof(argv[3]), std::atof(argv[4]));
    if (verb == "write") return write_cases(argv[2], argv[3], std::atoi(argv[4]));
  } catch (const nsa::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 3;
}
