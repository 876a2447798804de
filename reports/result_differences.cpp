#include "reports/result_differences.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "harness/store/identity.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {
namespace {

using harness::CaseRecord;

constexpr std::size_t kMostResults = 40;
constexpr std::size_t kMostFiles = 4;  // named

bool is_result(const std::string& metric) {
  constexpr std::array<std::string_view, 4> kResults = {
      "loss", "grad_norm", "loss_scale", "skipped_steps"};
  return std::find(kResults.begin(), kResults.end(), metric) != kResults.end();
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool ran(const CaseRecord& record) {
  return record.skip_reason.empty() && record.digest.recorded &&
         !harness::plants_fault(record.case_json);
}

void compare_series(const CaseRecord& before, const CaseRecord& now, ResultDifferences& result) {
  for (const auto& [name, values] : now.digest.series) {
    const auto earlier = before.digest.series.find(name);
    if (!is_result(name) || earlier == before.digest.series.end()) continue;
    ++result.series_compared;
    SeriesDifference found;
    found.label = now.label;
    found.result = name;
    found.steps = std::min(values.size(), earlier->second.size());
    for (std::size_t i = 0; i < found.steps; ++i) {
      const double was = earlier->second[i];
      if (same_bits(was, values[i])) continue;
      if (++found.others == 1) {
        found.first = i + 1;
        found.before = was;
        found.now = values[i];
      }
      const double share = std::abs(values[i] - was) / std::abs(was);
      if (!(share <= found.largest)) found.largest = share;  // NaN stays
    }
    if (found.others > 0) result.series.push_back(found);
  }
}

std::map<std::string, std::string> hashes_of(const CaseRecord& record) {
  std::map<std::string, std::string> hashes;
  for (const harness::FileRow& file : record.digest.files) {
    if (file.path.ends_with(".safetensors")) hashes[file.path] = file.hash;
  }
  return hashes;
}

void compare_tensors(const CaseRecord& before, const CaseRecord& now, ResultDifferences& result) {
  const auto earlier = hashes_of(before);
  const auto later = hashes_of(now);
  TensorDifference found;
  found.label = now.label;
  for (const auto& [path, hash] : later) {
    const auto at = earlier.find(path);
    if (at == earlier.end()) {
      found.missing.push_back(path);
      continue;
    }
    ++found.files;
    if (at->second != hash) found.others.push_back(path);
  }
  for (const auto& [path, hash] : earlier) {
    if (!later.contains(path)) found.missing.push_back(path);
  }
  result.files_compared += found.files;
  if (!found.others.empty() || !found.missing.empty()) result.tensors.push_back(found);
}

std::string names_text(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(paths.size(), kMostFiles); ++i) {
    names.push_back(escape(paths[i]));
  }
  if (paths.size() > kMostFiles) {
    names.push_back(std::to_string(paths.size() - kMostFiles) + " more");
  }
  return names.empty() ? "–" : nsa::join(names);
}

std::string more_text(std::size_t all) {
  return all > kMostResults ? "And " + std::to_string(all - kMostResults) + " more.\n\n" : "";
}

std::string series_text(const std::vector<SeriesDifference>& all) {
  if (all.empty()) return "";
  Table table({"case", "result", "steps that differ", "first", "before", "now", "at most"});
  for (std::size_t i = 0; i < std::min(all.size(), kMostResults); ++i) {
    const SeriesDifference& one = all[i];
    table.row({escape(one.label),
               escape(one.result),
               std::to_string(one.others) + " of " + std::to_string(one.steps),
               "step " + std::to_string(one.first),
               nsa::to_text(one.before, 17),
               nsa::to_text(one.now, 17),
               nsa::to_text(one.largest, 2)});
  }
  return table.text() + more_text(all.size());
}

std::string tensors_text(const std::vector<TensorDifference>& all) {
  if (all.empty()) return "";
  Table table({"case", "files with other bytes", "which", "only in one run"});
  for (std::size_t i = 0; i < std::min(all.size(), kMostResults); ++i) {
    const TensorDifference& one = all[i];
    table.row({escape(one.label),
               std::to_string(one.others.size()) + " of " + std::to_string(one.files),
               names_text(one.others),
               names_text(one.missing)});
  }
  return table.text() + more_text(all.size());
}

}  // namespace

ResultDifferences compare_results(const std::vector<CaseRecord>& before,
                                  const std::vector<CaseRecord>& now) {
  std::map<std::string, const CaseRecord*> earlier;
  for (const CaseRecord& record : before) {
    if (ran(record)) earlier.try_emplace(record.history_id, &record);
  }
  ResultDifferences result;
  std::set<std::string> seen;
  for (const CaseRecord& record : now) {
    const auto at = earlier.find(record.history_id);
    if (!ran(record) || at == earlier.end() || !seen.insert(record.history_id).second) continue;
    compare_series(*at->second, record, result);
    compare_tensors(*at->second, record, result);
  }
  return result;
}

std::string results_text(const ResultDifferences& differences) {
  std::size_t files = 0;
  for (const TensorDifference& one : differences.tensors) files += one.others.size();
  if (differences.series_compared + differences.files_compared == 0) {
    return "No result was recorded on both sides.\n\n";
  }
  const auto share = [](std::size_t differ, std::size_t all, std::string_view noun) {
    return std::to_string(differ) + " of " + counted(static_cast<std::int64_t>(all), noun);
  };
  std::vector<std::string> parts;
  if (differences.series_compared > 0) {
    parts.push_back(share(differences.series.size(), differences.series_compared, "curve") +
                    " (loss, norm of the gradient)");
  }
  if (differences.files_compared > 0) {
    parts.push_back(share(files, differences.files_compared, "tensor file"));
  }
  return "Results, which are told and not judged: " + nsa::join(parts, " and ") + " differ.\n\n" +
         series_text(differences.series) + tensors_text(differences.tensors);
}

}  // namespace reports
