// Builds what a check returns. A finding makes it fail, missing evidence makes it inconclusive, and only with neither
// may it pass: verdict and reason are derived here so that no check can pass on nothing.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/check.h"
#include "harness/judge/wording/find_wording.h"

namespace harness::checks {

class ResultBuilder {
 public:
  void found(Finding finding) { result_.findings.push_back(worded(std::move(finding))); }
  // What was not there: "gradient rows of rank 1, step 1". Said once each, in order. `where` says which layers and ranks it
  // was wanted of: so it can be said which finding it is missing for.
  void missing(const std::string& what, const Site& where = {});
  // What a finding of this check makes impossible to judge; the verdict is not weakened by it.
  void not_judged(const std::string& what, const Site& where);
  void departed(Departed fact) { result_.departed.push_back(std::move(fact)); }
  void measured(std::string name, double value) {
    result_.measured.push_back({std::move(name), value, std::nullopt});
  }
  void measured(std::string name, double value, double limit) {
    result_.measured.push_back({std::move(name), value, Real(limit)});
  }
  [[nodiscard]] bool has_findings() const { return !result_.findings.empty(); }
  [[nodiscard]] bool has_missing() const { return !missing_.empty(); }

  // The verdict; `why_pass` is the reason when it is a pass.
  [[nodiscard]] CheckResult finish(const std::string& why_pass);

 private:
  CheckResult result_;
  std::vector<std::string> missing_;
};

[[nodiscard]] CheckResult inconclusive(std::string reason);

// Without a place and facts yet.
[[nodiscard]] Finding make_finding(std::string code, std::string variant);

// Of one process: rank 1, or nothing for the twin.
[[nodiscard]] Site site_of_rank(int rank);
[[nodiscard]] Site site_of_layer(int rank, int layer);

[[nodiscard]] std::vector<int> all_ranks(const Evidence& evidence);
[[nodiscard]] std::vector<int> to_ints(const std::set<int>& values);

// "rank 1", "ranks 0-3", "no rank"
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

// "1 step", "3 steps"
[[nodiscard]] std::string counted(std::int64_t count, const std::string& noun);

// " (rank 1 did not finish its work)" where a process did not do all it was asked, else "".
[[nodiscard]] std::string ended_early(const Evidence& evidence, int process);

// Rows may come in any order and a row may be written again: the latest one counts, whatever the order.
template <typename Key, typename Row>
class Latest {
 public:
  void put(const Key& key, const From<Row>& row) {
    const auto [at, inserted] = rows_.try_emplace(key, &row);
    if (!inserted && at->second->t_ms <= row.t_ms) at->second = &row;
  }
  [[nodiscard]] const Row* find(const Key& key) const {
    const auto at = rows_.find(key);
    return at == rows_.end() ? nullptr : &at->second->row;
  }
  [[nodiscard]] const std::map<Key, const From<Row>*>& all() const { return rows_; }

 private:
  std::map<Key, const From<Row>*> rows_;
};

// The ranks whose value is not that of the strict majority; empty when there is none (two ranks that differ).
template <typename Rank, typename Value>
std::vector<Rank> minority(const std::map<Rank, Value>& value_of_rank) {
  std::map<Value, std::vector<Rank>> ranks_of;
  for (const auto& [rank, value] : value_of_rank) ranks_of[value].push_back(rank);
  for (const auto& [value, ranks] : ranks_of) {
    if (2 * ranks.size() <= value_of_rank.size()) continue;
    std::vector<Rank> others;
    for (const auto& [rank, seen] : value_of_rank) {
      if (!(seen == value)) others.push_back(rank);
    }
    return others;
  }
  return {};
}

template <typename Key, typename Value>
bool all_equal(const std::map<Key, Value>& values) {
  return std::all_of(values.begin(), values.end(), [&](const auto& entry) {
    return entry.second == values.begin()->second;
  });
}

}  // namespace harness::checks
