// The attention kernels on a card, judged by the float64 oracle.
//   kernels_check [--parts smoke,edges,..] [--only TEXT] [--family mma|wgmma|auto] [--seconds N] [--seed N] [--json FILE]
//                 [--list]
// One line a case, more for each failure; exit 0 where every case passed, 1 where one failed, 4 where none ran. What the time
// did not suffice for is counted and said.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/kernels/judge/cases.h"
#include "tests/kernels/judge/judge.h"
#include "tests/kernels/judge/run.h"
#include "tests/kernels/judge/truth.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> parts = judge::part_names();
  std::string only;
  std::string json;
  nsa::kernels::Family family = nsa::kernels::Family::automatic;
  double seconds = 1e9;
  std::uint64_t seed = 1;
  bool list = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

bool read(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--list") {
      options.list = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (name == "--parts")
      options.parts = split(value);
    else if (name == "--only")
      options.only = value;
    else if (name == "--json")
      options.json = value;
    else if (name == "--seconds")
      options.seconds = std::atof(value.c_str());
    else if (name == "--seed")
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--family" && value == "mma")
      options.family = nsa::kernels::Family::mma;
    else if (name == "--family" && value == "wgmma")
      options.family = nsa::kernels::Family::wgmma;
    else if (name != "--family" || value != "auto")
      return false;
  }
  return true;
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

struct Totals {
  int passed = 0;
  int failed = 0;
  int left_out = 0;
  std::int64_t tied_rows = 0;
  std::ostringstream json;
};

void run_case(judge::CheckedCase checked, const Options& options, Totals& totals) {
  checked.one.problem.family = options.family;
  const auto begin = Clock::now();
  judge::Verdict verdict;
  std::vector<std::string> problems;
  double run_s = 0;
  try {
    const auto inputs = judge::make_inputs(checked.one);
    const auto run_begin = Clock::now();
    const judge::Run run =
        checked.steps ? judge::run_steps(checked.one, inputs)
                      : judge::run_whole(checked.one, inputs, {checked.repeats, checked.saves});
    run_s = since(run_begin);
    problems = run.problems;
    const auto truth = judge::truth(checked.one, inputs, run.outcome);
    const auto rounded = judge::rounded_outcomes(checked.one, inputs, run.outcome, !checked.steps);
    verdict = judge::judge(checked.one, inputs, {run.outcome, truth, rounded});
  } catch (const std::exception& error) {
    problems.emplace_back(error.what());
  }
  judge::Measure worst;
  for (const auto& measure : verdict.measures) {
    if (measure.worst >= worst.worst) worst = measure;
  }
  const bool passed = verdict.failures.empty() && problems.empty() && !verdict.measures.empty();
  (passed ? totals.passed : totals.failed) += 1;
  totals.tied_rows += verdict.tied_rows;
  std::cout << (passed ? "ok   " : "FAIL ") << checked.one.name << " | worst " << worst.worst
            << " of its limit: " << worst.tensor << " | " << since(begin) << " s, kernels " << run_s
            << " s\n";
  for (const auto& problem : problems) std::cout << "     " << problem << '\n';
  for (std::size_t i = 0; i < verdict.failures.size() && i < 6; ++i)
    std::cout << "     " << verdict.failures[i] << '\n';
  std::cout << std::flush;
  totals.json << (totals.passed + totals.failed > 1 ? ",\n" : "")
              << "{\"case\": " << quoted(checked.one.name)
              << ", \"passed\": " << (passed ? "true" : "false")
              << ", \"failures\": " << verdict.failures.size()
              << ", \"tied_rows\": " << verdict.tied_rows << ", \"tensors\": [";
  for (std::size_t i = 0; i < verdict.measures.size(); ++i) {
    const auto& m = verdict.measures[i];
    totals.json << (i > 0 ? ", " : "") << "[" << quoted(m.tensor) << ", " << m.worst << ", "
                << m.error << ", " << m.budget << "]";
  }
  totals.json << "]}";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read(argc, argv, options)) {
    std::cerr << "kernels_check: see the head of its source for the options\n";
    return 3;
  }
  const auto begin = Clock::now();
  Totals totals;
  for (const auto& part : options.parts) {
    for (const auto& checked : judge::cases_of(part, options.seed)) {
      if (checked.one.name.find(options.only) == std::string::npos) continue;
      if (options.list) {
        std::cout << checked.one.name << '\n';
      } else if (since(begin) > options.seconds) {
        ++totals.left_out;
      } else {
        run_case(checked, options, totals);
      }
    }
  }
  std::cout << "passed " << totals.passed << ", failed " << totals.failed
            << ", left out for lack of time " << totals.left_out << ", rows decided by proven ties "
            << totals.tied_rows << ", " << since(begin) << " s\n";
  if (!options.json.empty()) std::ofstream(options.json) << "[" << totals.json.str() << "]\n";
  if (totals.failed > 0) return 1;
  return totals.passed > 0 || options.list ? 0 : 4;
}
