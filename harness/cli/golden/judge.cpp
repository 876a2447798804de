#include "harness/cli/golden/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "harness/cli/golden/choice.h"
#include "harness/cli/golden/limits.h"
#include "harness/cli/golden/reason.h"
#include "nsa/base/text.h"

namespace harness::cli::golden {
namespace {

std::vector<std::size_t> rows_that_differ(const oracles::IntTensor& a,
                                          const oracles::IntTensor& b) {
  std::vector<std::size_t> rows;
  const auto n = static_cast<std::size_t>(a.shape.back());
  for (std::size_t row = 0; row * n < a.data.size(); ++row) {
    const auto begin = a.data.begin() + static_cast<std::ptrdiff_t>(row * n);
    if (!std::equal(begin,
                    begin + static_cast<std::ptrdiff_t>(n),
                    b.data.begin() + static_cast<std::ptrdiff_t>(row * n))) {
      rows.push_back(row);
    }
  }
  return rows;
}

class Judge {
 public:
  Judge(const Case& c, const Wanted& oracle, const Wanted* model)
      : c_(c), oracle_(oracle), model_(model), limits_(c, oracle) {}

  Judgement judge() {
    for (const std::string& name : c_.results) {
      judgement_.stages.push_back(name == "blocks" ? choice() : values(name));
    }
    const auto first = first_stage();
    if (first == judgement_.stages.end()) {
      judgement_.sentence = "all " + std::to_string(judgement_.stages.size()) + " results agree";
      return std::move(judgement_);
    }
    judgement_.first = first->name;
    judgement_.sentence = "first stage that differs: " + first->name + step_text(first->name) +
                          right_text(first) + one_sided_text(*first);
    if (!first->oracle.agrees()) {
      judgement_.reason = likely_reason(
          c_,
          oracle_,
          first->name,
          [&](const std::string& name) { return limits_.allowed(name); },
          wrong_rows_);
    }
    return std::move(judgement_);
  }

 private:
  using Iterator = std::vector<Stage>::const_iterator;

  [[nodiscard]] Compared compare(const std::string& name,
                                 const oracles::Tensor& wanted,
                                 double of_float64) const {
    const oracles::Tensor& found = c_.found.at(name);
    if (limits_.has_budget(name)) {
      const checks::Spent spent = limits_.spent(name, found, wanted);
      return {spent.error, spent.limit, spent.where};
    }
    double worst = 0.0;
    for (std::size_t i = 0; i < found.data.size(); ++i) {
      const double difference = std::abs(found.data[i] - wanted.data[i]);
      if (!(difference <= worst)) worst = difference;
      if (std::isnan(worst)) break;
    }
    const Compared largest{worst == 0.0 ? 0.0 : worst / limits_.scale_of(name, wanted),
                           limits_.ceiling_of(name, of_float64),
                           ""};
    const auto mean = limits_.mean_of(name, found, wanted);
    if (!mean || !largest.agrees()) return largest;
    return {mean->error, mean->limit, mean->where};
  }

  Stage values(const std::string& name) {
    Stage stage;
    stage.name = name;
    stage.oracle = compare(name, oracle_.at(name), kFloat64Oracle);
    if (model_ != nullptr) {
      stage.model = compare(name, model_->at(name), kFloat64Model);
    }
    if (!stage.oracle.agrees()) {
      stage.words = place_words(name, oracle_.at(name), stage.oracle);
    } else if (!stage.agrees()) {
      stage.words = place_words(name, model_->at(name), *stage.model);
    }
    return stage;
  }

  // "3 of 128 values differ, worst at [0,1,2]: found 0.3, wanted 0.2"
  [[nodiscard]] std::string place_words(const std::string& name,
                                        const oracles::Tensor& wanted,
                                        const Compared& compared) const {
    const oracles::Tensor& found = c_.found.at(name);
    const double ceiling =
        compared.where.empty() ? compared.limit : limits_.ceiling_of(name, kFloat64Oracle);
    const double allowed = limits_.has_budget(name) ? limits_.spent(name, found, wanted).whole
                                                    : ceiling * limits_.scale_of(name, wanted);
    std::size_t wrong = 0;
    std::size_t at = 0;
    double worst = -1.0;
    for (std::size_t i = 0; i < found.data.size(); ++i) {
      const double difference = std::abs(found.data[i] - wanted.data[i]);
      wrong += difference <= allowed ? 0 : 1;
      if (std::isnan(worst) || difference <= worst) continue;
      worst = difference;
      at = i;
    }
    const std::string what =
        wrong > 0
            ? std::to_string(wrong) + " of " + std::to_string(found.data.size()) + " values differ"
            : "too far off, measured " + compared.where + ", though no value alone is";
    return what + ", worst at " + place_text(found.shape, at) + ": found " +
           nsa::to_text(found.data[at], 6) + ", wanted " + nsa::to_text(wanted.data[at], 6);
  }

  Stage choice() {
    Stage stage;
    stage.name = "blocks";
    if (!c_.unusable.empty()) {
      stage.oracle = {1.0, 0.0};
      wrong_rows_ = rows_that_differ(*c_.blocks, *oracle_.blocks);
      stage.words = c_.unusable + "; later stages are compared with the oracle's own blocks";
      return stage;
    }
    const Choice choice = judge_choice(c_, oracle_, model_, score_inputs());
    wrong_rows_ = choice.wrong_rows;
    const auto share = [&](std::int64_t rows) {
      return static_cast<double>(rows) / static_cast<double>(choice.rows);
    };
    stage.oracle = {share(choice.wrong), 0.0};
    if (model_ != nullptr) stage.model = Compared{share(choice.wrong_for_model), 0.0};
    stage.words = choice.words;
    if (choice.wrong > 0) {
      stage.words = std::to_string(choice.wrong) + " of " + std::to_string(choice.rows) +
                    " rows hold other blocks than the scores demand, " + stage.words;
    }
    return stage;
  }

  // What the choice was made from, if it is in the file, right, and as wide as it was computed: a
  // bfloat16 tensor may be the rounded copy of what was used. Else the oracle's, from which the
  // author's are no further than a right tensor may be.
  [[nodiscard]] oracles::ScoreInputs score_inputs() const {
    const bool wide = c_.dtype == nsa::DType::f64 || c_.dtype == nsa::DType::f32;
    oracles::ScoreInputs inputs;
    inputs.length = c_.length;
    for (std::int64_t row = 0; row < c_.length; ++row) inputs.rows.push_back(row);
    if (wide && is_right("q") && is_right("k_cmp")) {
      inputs.q = c_.found.at("q");
      inputs.k_cmp = c_.found.at("k_cmp");
      return inputs;
    }
    inputs.q = oracle_.at("q");
    inputs.k_cmp = oracle_.at("k_cmp");
    inputs.q_error = limits_.allowed("q").of(inputs.q);
    inputs.k_error = limits_.allowed("k_cmp").of(inputs.k_cmp);
    return inputs;
  }

  // It is in the file, and agrees with the oracle.
  [[nodiscard]] bool is_right(const std::string& name) const {
    return std::any_of(judgement_.stages.begin(), judgement_.stages.end(), [&](const Stage& stage) {
      return stage.name == name && stage.oracle.agrees();
    });
  }

  // The oracle's word counts first: what differs from the model alone says something about the
  // model.
  [[nodiscard]] Iterator first_stage() const {
    const std::vector<Stage>& stages = judgement_.stages;
    auto first = std::find_if(
        stages.begin(), stages.end(), [](const Stage& stage) { return !stage.oracle.agrees(); });
    if (first == stages.end()) {
      first = std::find_if(
          stages.begin(), stages.end(), [](const Stage& stage) { return !stage.agrees(); });
    }
    // At the train level the first step counts, whichever series it is in.
    for (auto other = stages.begin(); other != stages.end(); ++other) {
      if (!other->agrees() && first_step(other->name) < first_step(first->name)) first = other;
    }
    return first;
  }

  // Of a series over steps, the first that differs from the oracle, counted from 1.
  [[nodiscard]] std::int64_t first_step(const std::string& name) const {
    constexpr std::int64_t kNever = std::int64_t{1} << 62;
    if (c_.level != GoldenLevel::train || name.starts_with("p1.")) return kNever;
    const oracles::Tensor& wanted = oracle_.at(name);
    const double allowed =
        limits_.ceiling_of(name, kFloat64Oracle) * limits_.scale_of(name, wanted);
    for (std::size_t i = 0; i < wanted.data.size(); ++i) {
      const double difference = std::abs(c_.found.at(name).data[i] - wanted.data[i]);
      if (!(difference <= allowed)) return static_cast<std::int64_t>(i) + 1;
    }
    return kNever;
  }

  [[nodiscard]] std::string step_text(const std::string& name) const {
    const std::int64_t step = first_step(name);
    return step > c_.steps ? "" : " at step " + std::to_string(step);
  }

  [[nodiscard]] std::string right_text(Iterator first) const {
    constexpr std::ptrdiff_t kMostNamed = 9;  // the forward stages of a layer
    std::vector<std::string> names;
    for (auto stage = judgement_.stages.begin(); stage != first; ++stage) {
      if (stage->agrees()) names.push_back(stage->name);
    }
    if (names.empty()) return "; the file has nothing that comes before it";
    if (static_cast<std::ptrdiff_t>(names.size()) > kMostNamed) {
      return "; the " + std::to_string(names.size()) + " results before it are right";
    }
    if (names.size() == 1) return "; " + names.front() + " is right";
    const std::string last = names.back();
    names.pop_back();
    return "; " + nsa::join(names) + " and " + last + " are right";
  }

  static std::string one_sided_text(const Stage& first) {
    if (first.oracle.agrees()) return " (the oracle agrees with the file, the model does not)";
    if (first.model && first.model->agrees()) {
      return " (the model agrees with the file, the oracle does not)";
    }
    return "";
  }

  const Case& c_;
  const Wanted& oracle_;
  const Wanted* model_;
  Limits limits_;
  std::vector<std::size_t> wrong_rows_;  // of the choice
  Judgement judgement_;
};

}  // namespace

std::string kind_of(const std::string& result) {
  if (result.starts_with("g.")) return "gradients";
  if (result.starts_with("p1.")) return "parameters";
  for (const char* alone : {"loss", "logits", "grad_norm", "lr"}) {
    if (result == alone) return alone;
  }
  return "outputs";
}

Judgement judge_golden(const Case& the_case, const Wanted& oracle, const Wanted* model) {
  return Judge(the_case, oracle, model).judge();
}

}  // namespace harness::cli::golden
