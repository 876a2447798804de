// How long reports, and the history of one case, take on a database of a year of nights, made once in the temporary folder (some
// minutes); and how long it takes until what a case wrote is stored:
//   store_bench --benchmark_min_time=1
//   store_bench --benchmark_filter=ingest
#include <filesystem>
#include <iostream>

#include <benchmark/benchmark.h>

#include "harness/evidence/evidence.h"
#include "harness/run/record/run_folder.h"
#include "reports/report.h"
#include "reports/times.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/night.h"

namespace {

using harness::Store;

constexpr int kNights = 365;
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kFirstMs = 1'750'000'000'000;

// One timed cell of a night: eight launches beside a control.
void write_launches(harness::Store& store, int night) {
  harness::RunRecord run = harness::test::a_run("times-" + std::to_string(night));
  run.started_ms = kFirstMs + night * kDayMs + 1;
  run.id = store.begin_run(run);
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = store.plan_case(harness::test::a_case(run.id, i, "timed"));
    harness::Digest digest;
    digest.recorded = true;
    const double noise = 1.0 + 0.001 * ((night * 8 + i) * 37 % 19);
    digest.metrics = {{harness::kControlMs, 10.0}, {harness::kStepMs, 100.0 * noise}};
    store.begin_case(row, run.started_ms);
    store.finish_case(row, 1.0, digest);
    store.add_judgement(row, harness::test::stored(harness::Outcome::pass));
  }
  store.finish_run(run.id, 0, true, run.started_ms + 1);
}

// Its path. Lives as long as the program.
const std::string& database() {
  static const fakes::TempFolder kFolder;
  static const std::string kPath = [] {
    const std::string path = kFolder / "runs.db";
    const auto store = Store::open(path, true);
    harness::test::NightWriter night;
    for (int i = 0; i < kNights; ++i) {
      night.write(*store, "night-" + std::to_string(i), kFirstMs + i * kDayMs, 45);
      write_launches(*store, i);
    }
    return path;
  }();
  return kPath;
}

// `days` nights back from the last one.
void report_since(benchmark::State& state) {
  const auto days = state.range(0);
  const std::string path = database();
  std::size_t bytes = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto store = Store::open_read_only(path);
    reports::ReportRequest request;
    const std::int64_t last = kFirstMs + (kNights - 1) * kDayMs;
    request.runs = store->runs(last - days * kDayMs + 1, last + 1);
    request.about_range = "the last nights";
    bytes = reports::render_report(*store, request).size();
  }
  state.counters["report_bytes"] = static_cast<double>(bytes);
  state.counters["database_MB"] = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
}
// What `history CELL` does, from opening the database to its text.
void history_of_a_cell(benchmark::State& state) {
  std::size_t nights = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto store = Store::open_read_only(database());
    const auto runs = store->runs(0, kFirstMs + kNights * kDayMs);
    const std::string cell = store->cases(runs.back().id).front().history_id;
    const auto judged = harness::history::judge_nights(reports::nights_of_cell(*store, runs, cell));
    benchmark::DoNotOptimize(reports::history_text(runs, judged, {}, kNights));
    nights = judged.size();
  }
  state.counters["nights"] = static_cast<double>(nights);
}

constexpr std::int64_t kSamplesOfAStep = 10;  // loss, grad_norm, lr, ...

// As a rank writes them, a line each.
std::vector<std::string> sample_lines(std::int64_t count) {
  std::vector<std::string> lines;
  lines.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const harness::Sample sample = {"metric_" + std::to_string(i % kSamplesOfAStep),
                                    i / kSamplesOfAStep,
                                    harness::Real(1.0 / static_cast<double>(i + 1))};
    lines.push_back(encode_event(harness::Event::of(0, i / 100, sample)));
  }
  return lines;
}

// What the controller does with the lines of a rank, in batches: reads and checks them, appends them to the log.
void take_lines(const std::vector<std::string>& lines,
                const std::string& folder,
                harness::Evidence& evidence) {
  constexpr std::size_t kBatch = 256;
  harness::EventLog log(folder);
  std::vector<harness::Event> batch;
  for (const std::string& line : lines) {
    batch.push_back(harness::decode_event(line));
    evidence.add(batch.back());
    if (batch.size() < kBatch && &line != &lines.back()) continue;
    log.append(batch);
    batch.clear();
  }
  log.finish();
}

std::int64_t planned_case(Store& store) {
  const std::int64_t run = store.begin_run(harness::test::a_run("samples"));
  return store.plan_case(harness::test::a_case(run, 0, "samples"));
}

// Of a case that wrote so many samples: from the lines to its rows in the database.
void ingest_samples(benchmark::State& state) {
  const std::vector<std::string> lines = sample_lines(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    const fakes::TempFolder folder;
    const auto store = Store::open(folder / "runs.db", true);
    const std::int64_t row = planned_case(*store);
    harness::Evidence evidence;
    take_lines(lines, folder.path(), evidence);
    store->finish_case(row, 1.0, digest_of(evidence));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ingest_samples)->Arg(1'000'000)->Unit(benchmark::kSecond)->UseRealTime();

// The same from the case's folder, as `db rebuild` and `judge` do it.
void ingest_samples_again(benchmark::State& state) {
  const fakes::TempFolder folder;
  {
    harness::Evidence evidence;
    take_lines(sample_lines(state.range(0)), folder.path(), evidence);
  }
  for ([[maybe_unused]] auto _ : state) {
    const fakes::TempFolder beside;
    const auto store = Store::open(beside / "runs.db", true);
    const std::int64_t row = planned_case(*store);
    harness::Evidence evidence;
    (void)harness::read_event_log(folder.path(),
                                  [&](const harness::Event& event) { evidence.add(event); });
    store->finish_case(row, 1.0, digest_of(evidence));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ingest_samples_again)->Arg(1'000'000)->Unit(benchmark::kSecond)->UseRealTime();

BENCHMARK(history_of_a_cell)->Unit(benchmark::kMillisecond);

BENCHMARK(report_since)->Arg(1)->Arg(2)->Arg(7)->Unit(benchmark::kMillisecond);

}  // namespace
