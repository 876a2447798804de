// Does decoding give what the whole sequence at once gives? Layer by layer, position by position: outputs within the ceiling of
// the dtype, the same blocks. Of the first layer that differs, the operation is named that differs first, and every other one that
// differs though nothing that it is made of does. In bfloat16 and float16 a
// product over one token may be rounded otherwise than one over all: there a block may give way to one whose score is as near.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "harness/checks/attention/decode/decode_record.h"
#include "harness/checks/attention/decode/decode_stages.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/departures.h"
#include "harness/checks/largest.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

class DecodeJudge {
 public:
  explicit DecodeJudge(const Evidence& evidence)
      : evidence_(evidence), model_(evidence.the_case.scenario.model) {}

  CheckResult judge() {
    const auto prompt = prompt_length(evidence_, result_);
    if (prompt) {
      prompt_ = *prompt;
      for (int layer = 0; layer < model_.n_layers; ++layer) judge_layer(layer);
      if (!wrong_.empty()) tell();
      result_.measured("relative_error_y", worst_, limit_);
      if (tied_ > 0) result_.measured("decode_rows_tied", static_cast<double>(tied_));
    }
    const std::int64_t length = evidence_.the_case.scenario.training.seq_len;
    return result_.finish("positions " + std::to_string(prompt_) + " to " +
                          std::to_string(length - 1) + " of " + counted(model_.n_layers, "layer") +
                          ", decoded one by one, are those of the whole sequence (relative error " +
                          nsa::to_text(worst_, 2) + ", ceiling " + nsa::to_text(limit_, 2) +
                          "), with the same blocks" +
                          (tied_ == 0 ? ""
                                      : " but in " + counted(tied_, "row") +
                                            " whose scores are as near as rounding makes them"));
  }

 private:
  void judge_layer(int layer) {
    const auto whole = open_decoded(evidence_, kPrefill, layer, result_);
    const auto steps = open_decoded(evidence_, kSteps, layer, result_);
    if (!whole || !steps) return;
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    const std::int64_t b = training.batch_size;
    const std::int64_t s = training.seq_len;
    const std::int64_t k = s - prompt_;
    const std::int64_t g = model_.n_kv_groups;
    const bool complete = has_shape(*whole, "y", {b, s, model_.dim}, result_) &&
                          has_shape(*steps, "y", {b, k, model_.dim}, result_) &&
                          has_shape(*whole, "blocks", {b, g, s, model_.n_sel}, result_) &&
                          has_shape(*steps, "blocks", {b, g, k, model_.n_sel}, result_);
    if (!complete) return;
    Departure seen("DECODE.MISMATCH", "position");
    seen.site = site_of_layer(0, layer);
    seen.site.detail["blocks"] = false;
    try {
      compare_blocks(*whole, *steps, seen);
      compare_values(*whole, *steps, seen);
      if (wrong_.empty() && !seen.site.rows.empty()) {
        stages_ = differing_stages(*whole, *steps, prompt_, limit_);
      }
    } catch (const nsa::Error& error) {
      result_.missing("layer " + std::to_string(layer) + " cannot be compared: " + error.what());
      return;
    }
    if (!seen.site.rows.empty()) wrong_.push_back(std::move(seen));
  }

  void compare_blocks(const nsa::SafetensorsFile& whole,
                      const nsa::SafetensorsFile& steps,
                      Departure& seen) {
    const auto n = static_cast<std::size_t>(model_.n_sel);
    const std::vector<std::int64_t> wanted = nsa::to_int64s(whole.at("blocks"));
    const std::vector<std::int64_t> found = nsa::to_int64s(steps.at("blocks"));
    const auto scores = scores_of(whole, steps);
    for_each(found.size(), n, [&](std::size_t i, std::size_t j, std::int64_t at) {
      if (i % n != 0) return;
      const std::span list(found.data() + i, n);
      const std::span right(wanted.data() + j, n);
      if (std::equal(list.begin(), list.end(), right.begin())) return;
      if (scores && exchanges_near_ones(*scores, i / n, j / n, list, right)) {
        ++tied_;
        return;
      }
      seen.site.detail["blocks"] = true;
      put_position(at, seen);
    });
  }

  // Of a narrow type, where both have recorded them: [.., N].
  struct Scores {
    Reals found;
    Reals wanted;
    std::size_t blocks = 0;
    double tie = 0.0;  // of a row's largest score
  };
  [[nodiscard]] std::optional<Scores> scores_of(const nsa::SafetensorsFile& whole,
                                                const nsa::SafetensorsFile& steps) const {
    // What a query and its keys are rounded by moves a logit of some units by some units in the last place, and its share as much.
    constexpr double kUnits = 16.0;
    const double u = Reals(steps.at("y")).unit_roundoff();
    if (u <= 0x1p-24 || !whole.contains("p_grp") || !steps.contains("p_grp")) return std::nullopt;
    const auto& shape = whole.at("p_grp").shape;
    if (shape.empty() || steps.at("p_grp").shape.back() != shape.back()) return std::nullopt;
    return Scores{Reals(steps.at("p_grp")),
                  Reals(whole.at("p_grp")),
                  static_cast<std::size_t>(shape.back()),
                  kUnits * u};
  }

  // Is every score as near to the other's as rounding makes them, and those of the blocks exchanged as near to each other?
  [[nodiscard]] static bool exchanges_near_ones(const Scores& scores,
                                                std::size_t row,
                                                std::size_t row_of_whole,
                                                std::span<const std::int64_t> list,
                                                std::span<const std::int64_t> right) {
    const std::size_t first = row * scores.blocks;
    const std::size_t first_of_whole = row_of_whole * scores.blocks;
    double largest_score = 0.0;
    double apart = 0.0;
    double low = INFINITY;
    double high = -INFINITY;
    const auto has = [](std::span<const std::int64_t> all, std::int64_t block) {
      return std::find(all.begin(), all.end(), block) != all.end();
    };
    for (std::size_t block = 0; block < scores.blocks; ++block) {
      const double score = scores.wanted[first_of_whole + block];
      raise_to(largest_score, score);
      raise_to(apart, std::abs(scores.found[first + block] - score));
      const auto number = static_cast<std::int64_t>(block);
      if (has(list, number) == has(right, number)) continue;
      low = std::min(low, score);
      high = std::max(high, score);
    }
    const double limit = scores.tie * largest_score;
    return apart <= limit && high - low <= limit;
  }

  void compare_values(const nsa::SafetensorsFile& whole,
                      const nsa::SafetensorsFile& steps,
                      Departure& seen) {
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    const Reals wanted(whole.at("y"));
    const Reals found(steps.at("y"));
    double scale = 0.0;
    for (std::size_t i = 0; i < wanted.size(); ++i) raise_to(scale, std::abs(wanted[i]));
    const LongestSums sums(model_, training.batch_size, training.seq_len);
    const double u = found.unit_roundoff();
    limit_ = ceiling(sums.y, u, std::min(u, 0x1p-24));
    for_each(found.size(),
             static_cast<std::size_t>(model_.dim),
             [&](std::size_t i, std::size_t j, std::int64_t at) {
               const double difference = std::abs(found[i] - wanted[j]);
               const double relative = difference == 0.0 ? 0.0 : difference / scale;
               raise_to(seen.error, relative);
               raise_to(worst_, relative);
               if (relative <= limit_) return;
               seen.limit = limit_;
               put_position(at, seen);
             });
  }

  // The first one is kept.
  static void put_position(std::int64_t at, Departure& seen) {
    const int position = static_cast<int>(at);
    std::vector<int>& rows = seen.site.rows;
    rows = {rows.empty() ? position : std::min(rows.front(), position)};
  }

  // visit(element decoded alone, the same element of the whole, position) of [.., k, width] in [.., S, width].
  template <typename Visit>
  void for_each(std::size_t elements, std::size_t width, Visit visit) const {
    const auto s = static_cast<std::size_t>(evidence_.the_case.scenario.training.seq_len);
    const auto first = static_cast<std::size_t>(prompt_);
    const std::size_t k = s - first;
    for (std::size_t i = 0; i < elements; ++i) {
      const std::size_t lane = i / (k * width);
      const std::size_t position = first + i / width % k;
      visit(i, (lane * s + position) * width + i % width, static_cast<std::int64_t>(position));
    }
  }

  // What differs in later layers and positions follows from the first layer that differs, as far as it can be compared.
  void tell() {
    Finding finding = first_finding();
    std::vector<DecodedStage> others = stages_.first;
    if (!others.empty()) {
      put_stage(others.front(), finding.site);
      others.erase(others.begin());
    }
    result_.found(std::move(finding));
    for (const DecodedStage& stage : others) {
      Finding other = make_finding("DECODE.MISMATCH", "position_too");
      other.site = site_of_layer(0, first_layer());
      put_stage(stage, other.site);
      other.site.detail["prompt_tokens"] = prompt_;
      result_.found(std::move(other));
    }
    say_what_is_hidden();
  }

  static void put_stage(const DecodedStage& stage, Site& site) {
    site.op = stage.op;
    site.branch = stage.branch;
  }

  [[nodiscard]] int first_layer() const { return wrong_.front().site.layers.front(); }

  void say_what_is_hidden() {
    for (const DecodedStage& stage : stages_.hidden) {
      Site site = site_of_layer(0, first_layer());
      put_stage(stage, site);
      result_.not_judged(
          "decoding: " + std::string(stage.op) + ", which may be made of what differs", site);
    }
    for (int layer = first_layer() + 1; layer < model_.n_layers; ++layer) {
      result_.not_judged("decoding: a layer whose input differs", site_of_layer(0, layer));
    }
  }

  [[nodiscard]] Finding first_finding() const {
    Departure first = wrong_.front();
    const bool values = first.limit.has_value();
    const bool blocks = first.site.detail.value("blocks", false);
    if (blocks && !values) first.site.op = "select";
    first.site.detail["prompt_tokens"] = prompt_;
    first.site.detail["layers_wrong"] = wrong_.size();
    first.facts["position"] = first.site.rows.front();
    if (blocks) first.facts["other"] = "the indices differ";
    if (wrong_.size() > 1) first.facts["later"] = wrong_.size() - 1;
    Departures one;
    one.add(std::move(first));
    return one.findings().front();
  }

  const Evidence& evidence_;
  const nsa::ModelConfig& model_;
  std::int64_t prompt_ = 0;
  std::vector<Departure> wrong_;  // one a layer
  DifferingStages stages_;        // of the first one
  double worst_ = 0.0;
  double limit_ = 0.0;
  std::int64_t tied_ = 0;
  ResultBuilder result_;
};

}  // namespace

Check decode_equal() {
  return {"decode_equal",
          "a prompt and single tokens give the outputs and blocks of the whole sequence",
          {"DECODE.MISMATCH"},
          [](const Evidence& evidence) { return DecodeJudge(evidence).judge(); }};
}

}  // namespace harness::checks
