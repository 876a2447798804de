#include "harness/cli/golden/choice.h"

#include <algorithm>
#include <span>

#include "nsa/base/text.h"
#include "oracles/attention/selection.h"

namespace harness::cli::golden {
namespace {

using oracles::Agreement;

template <typename T>
std::span<const T> row_of(const std::vector<T>& values, std::int64_t row, std::int64_t width) {
  return std::span(values).subspan(static_cast<std::size_t>(row * width),
                                   static_cast<std::size_t>(width));
}

std::string blocks_text(std::span<const std::int64_t> row) {
  std::vector<std::string> numbers;
  for (const std::int64_t block : row) {
    if (block >= 0) numbers.push_back(std::to_string(block));
  }
  return numbers.empty() ? "none" : nsa::join(numbers, " ");
}

std::string row_text(const Case& c, std::int64_t row) {
  const std::int64_t list = row / c.length;
  const std::int64_t groups = c.attention().n_kv_groups;
  return "batch " + std::to_string(list / groups) + ", group " + std::to_string(list % groups) +
         ", query " + std::to_string(row % c.length);
}

class ChoiceJudge {
 public:
  ChoiceJudge(const Case& c,
              const Wanted& oracle,
              const Wanted* model,
              const oracles::ScoreInputs& inputs)
      : c_(c),
        oracle_(oracle),
        model_(model),
        scores_(oracles::scores_from(c.attention(), inputs, c.arithmetic)) {}

  Choice judge() {
    const oracles::AttentionConfig& config = c_.attention();
    choice_.rows = c_.batch * config.n_kv_groups * c_.length;
    for (std::int64_t row = 0; row < choice_.rows; ++row) {
      const oracles::Comparison seen = compare(*c_.blocks, row);
      note(seen, row);
      if (model_ != nullptr && differs(*model_->blocks, row) && seen.agreement != Agreement::tied &&
          compare(*model_->blocks, row).agreement != Agreement::tied) {
        ++choice_.wrong_for_model;
      }
    }
    if (choice_.tied > 0 && choice_.wrong == 0) {
      choice_.words = "SELECTION.TIE: other blocks in " + std::to_string(choice_.tied) + " of " +
                      std::to_string(choice_.rows) + " rows, which rounding explains (margin " +
                      nsa::to_text(choice_.gap, 3) + ", bound " + nsa::to_text(choice_.bound, 3) +
                      ")";
    }
    return choice_;
  }

 private:
  [[nodiscard]] oracles::Comparison compare(const oracles::IntTensor& blocks,
                                            std::int64_t row) const {
    const std::int64_t count = c_.attention().block_count(c_.length);
    return oracles::compare_selection(c_.attention(),
                                      row % c_.length,
                                      row_of(scores_.p_grp.data, row, count),
                                      row_of(scores_.bound.data, row, count),
                                      row_of(blocks.data, row, c_.attention().n_sel));
  }

  [[nodiscard]] bool differs(const oracles::IntTensor& other, std::int64_t row) const {
    const std::int64_t n = c_.attention().n_sel;
    const auto a = row_of(c_.blocks->data, row, n);
    const auto b = row_of(other.data, row, n);
    return !std::equal(a.begin(), a.end(), b.begin());
  }

  void note(const oracles::Comparison& seen, std::int64_t row) {
    if (seen.agreement == Agreement::tied) {
      ++choice_.tied;
      if (seen.gap - seen.bound >= choice_.gap - choice_.bound || choice_.tied == 1) {
        choice_.gap = seen.gap;
        choice_.bound = seen.bound;
      }
    }
    if (seen.agreement != Agreement::wrong) return;
    choice_.wrong_rows.push_back(static_cast<std::size_t>(row));
    if (++choice_.wrong > 1) return;
    const std::int64_t n = c_.attention().n_sel;
    choice_.words = "first at " + row_text(c_, row) + ": found blocks " +
                    blocks_text(row_of(c_.blocks->data, row, n)) + ", wanted " +
                    blocks_text(row_of(oracle_.blocks->data, row, n));
    if (seen.gap > 0.0) {
      choice_.words += ", whose scores are higher by " + nsa::to_text(seen.gap, 3) +
                       " where rounding explains " + nsa::to_text(seen.bound, 3);
    }
  }

  const Case& c_;
  const Wanted& oracle_;
  const Wanted* model_;
  oracles::BoundedScores scores_;
  Choice choice_;
};

}  // namespace

Choice judge_choice(const Case& c,
                    const Wanted& oracle,
                    const Wanted* model,
                    const oracles::ScoreInputs& inputs) {
  return ChoiceJudge(c, oracle, model, inputs).judge();
}

}  // namespace harness::cli::golden
