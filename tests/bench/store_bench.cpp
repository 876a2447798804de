// How long reports take on a database of 220 nights, made once in the temporary folder (two minutes):
//   store_bench --benchmark_min_time=1
#include <filesystem>
#include <iostream>

#include <benchmark/benchmark.h>

#include "reports/report.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/night.h"

namespace {

using harness::Store;

constexpr int kNights = 220;
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kFirstMs = 1'750'000'000'000;

// Its path. Lives as long as the program.
const std::string& database() {
  static const fakes::TempFolder kFolder;
  static const std::string kPath = [] {
    const std::string path = kFolder / "runs.db";
    const auto store = Store::open(path, true);
    harness::test::NightWriter night;
    for (int i = 0; i < kNights; ++i) {
      night.write(*store, "night-" + std::to_string(i), kFirstMs + i * kDayMs, 45);
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
BENCHMARK(report_since)->Arg(1)->Arg(2)->Arg(7)->Unit(benchmark::kMillisecond);

}  // namespace
