#include "harness/checks/law_match.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "harness/checks/largest.h"

namespace harness::checks {
namespace {

// One (batch, group, row) of two [B,G,h,S,V] arrays, head by head.
class RowComparison {
 public:
  explicit RowComparison(const LayerRecord& record)
      : groups_(record.config.n_kv_groups),
        heads_(record.config.heads_per_group()),
        length_(record.length),
        width_(record.config.d_v) {}

  [[nodiscard]] bool head_equal(const std::vector<double>& a,
                                const std::vector<double>& b,
                                const BadRow& at,
                                std::int64_t head,
                                double limit) const {
    const std::int64_t begin =
        (((at.batch * groups_ + at.group) * heads_ + head) * length_ + at.row) * width_;
    for (std::int64_t i = begin; i < begin + width_; ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (!(std::abs(a[index] - b[index]) <= limit)) return false;
    }
    return true;
  }

  [[nodiscard]] bool equal(const std::vector<double>& a,
                           const std::vector<double>& b,
                           const BadRow& at,
                           double limit) const {
    for (std::int64_t head = 0; head < heads_; ++head) {
      if (!head_equal(a, b, at, head, limit)) return false;
    }
    return true;
  }

  [[nodiscard]] std::int64_t heads() const { return heads_; }

 private:
  std::int64_t groups_;
  std::int64_t heads_;
  std::int64_t length_;
  std::int64_t width_;
};

template <typename Visit>
void for_each_row(const LayerRecord& record, Visit visit) {
  for (std::int64_t b = 0; b < record.batch; ++b) {
    for (std::int64_t g = 0; g < record.config.n_kv_groups; ++g) {
      for (std::int64_t t = 0; t < record.length; ++t) visit(BadRow{b, g, t});
    }
  }
}

bool makes_sense(const oracles::KeyLaw& law, oracles::Branch branch) {
  return std::find(law.branches.begin(), law.branches.end(), branch) != law.branches.end();
}

}  // namespace

std::vector<int> WrongRows::positions() const {
  std::set<int> unique;
  for (const BadRow& row : rows) unique.insert(static_cast<int>(row.row));
  std::vector<int> sorted = to_ints(unique);
  if (sorted.size() > kMostRows) sorted.resize(kMostRows);
  return sorted;
}

std::vector<int> WrongRows::groups() const {
  std::set<int> unique;
  for (const BadRow& row : rows) unique.insert(static_cast<int>(row.group));
  return to_ints(unique);
}

WrongRows wrong_rows(const LayerRecord& record,
                     const std::vector<double>& found,
                     const oracles::Tensor& wanted,
                     double limit) {
  const RowComparison compare(record);
  WrongRows wrong;
  for_each_row(record, [&](const BadRow& at) {
    ++wrong.all;
    bool good = true;
    for (std::int64_t head = 0; head < compare.heads(); ++head) {
      if (compare.head_equal(found, wanted.data, at, head, limit)) continue;
      good = false;
      wrong.heads.insert(static_cast<int>(at.group * compare.heads() + head));
    }
    if (!good) wrong.rows.push_back(at);
  });
  return wrong;
}

std::vector<LawMatch> matching_laws(const LayerRecord& record,
                                    oracles::Branch branch,
                                    const std::vector<double>& found,
                                    const oracles::Tensor& wanted,
                                    const WrongRows& wrong,
                                    double relative_limit) {
  oracles::AttentionOptions options;
  options.replay = record.blocks;
  const oracles::KeyLawOutputs laws(record.config, record.weights, record.x, options);
  const RowComparison compare(record);
  std::vector<LawMatch> matches;
  for (const oracles::KeyLaw& law : oracles::key_laws()) {
    if (!makes_sense(law, branch)) continue;
    const oracles::Tensor output = laws.output(law.name, branch);
    const double limit = relative_limit * std::max(largest(output.data), largest(wanted.data));
    const bool all = std::all_of(wrong.rows.begin(), wrong.rows.end(), [&](const BadRow& at) {
      return compare.equal(found, output.data, at, limit);
    });
    if (!all) continue;
    std::int64_t would_be_wrong = 0;
    for_each_row(record, [&](const BadRow& at) {
      if (!compare.equal(output.data, wanted.data, at, limit)) ++would_be_wrong;
    });
    const double rows = static_cast<double>(wrong.rows.size());
    matches.push_back({std::string(law.name), rows / static_cast<double>(would_be_wrong)});
  }
  return matches;
}

std::string code_of_law(const std::string& law) {
  using Entry = std::pair<std::string_view, const char*>;
  constexpr std::array kCodes = {
      Entry{"top_left", "MASK.ALIGNMENT"},
      Entry{"inverted", "MASK.POLARITY"},
      Entry{"inverted_past", "MASK.POLARITY"},
      Entry{"inverted_slice", "MASK.POLARITY"},
      Entry{"no_mask", "MASK.ABSENT"},
      Entry{"every_key", "MASK.ABSENT"},
      Entry{"every_past_key", "MASK.ABSENT"},
  };
  for (const auto& [name, code] : kCodes) {
    if (name == law) return code;
  }
  return "NUMERIC.FORWARD";
}

}  // namespace harness::checks
