#include "harness/checks/attention/decode/decode_stages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/checks/largest.h"

namespace harness::checks {
namespace {

using oracles::Stage;

constexpr std::string_view kCache = "cache";

struct DecodedRow : DecodedStage {
  // In kSteps: what it is made of. Of raw keys a cache is not on record, and is trusted where the caches that are on record are
  // right.
  std::string_view made_of;
  std::string_view holds = "";  // of a cache: what was appended, a token at a time
};

constexpr std::string_view kRawKeys = "k_raw held_k_sel held_v_sel held_k_win held_v_win";
constexpr std::string_view kRawValues = "v_raw held_k_sel held_v_sel held_k_win held_v_win";

// A stage of the attention, by its own name or as a step has it.
constexpr DecodedRow step_of(Stage stage, std::string_view made_of, std::string_view tensor = "") {
  const oracles::StageRow& row = oracles::row_of(stage);
  return {{tensor.empty() ? row.tensor : tensor, row.op, row.branch, row.tensor}, made_of};
}
// What a cache holds of the tokens of a stage in the end.
constexpr DecodedRow held(Stage stage, std::string_view tensor) {
  const oracles::StageRow& row = oracles::row_of(stage);
  return {{tensor, kCache, row.branch, row.tensor}, row.tensor, row.tensor};
}

// The stages of the attention, its input before, caches between. Caches of tokens come before compressed tokens, which are made
// from what such a cache holds.
constexpr std::array kDecodedRows = {DecodedRow{{"x", "input", "", "x"}, ""},
                                     step_of(Stage::q, "x"),
                                     step_of(Stage::k_raw, "x"),
                                     step_of(Stage::v_raw, "x"),
                                     step_of(Stage::k_sel, "x"),
                                     step_of(Stage::v_sel, "x"),
                                     step_of(Stage::k_win, "x"),
                                     step_of(Stage::v_win, "x"),
                                     held(Stage::k_sel, "held_k_sel"),
                                     held(Stage::v_sel, "held_v_sel"),
                                     held(Stage::k_win, "held_k_win"),
                                     held(Stage::v_win, "held_v_win"),
                                     step_of(Stage::k_cmp, kRawKeys, "made_k_cmp"),
                                     step_of(Stage::v_cmp, kRawValues, "made_v_cmp"),
                                     DecodedRow{{"k_cmp", kCache, "cmp", "k_cmp"}, "made_k_cmp"},
                                     DecodedRow{{"v_cmp", kCache, "cmp", "v_cmp"}, "made_v_cmp"},
                                     step_of(Stage::o_cmp, "q k_cmp v_cmp made_k_cmp made_v_cmp"),
                                     step_of(Stage::p_grp, "q k_cmp made_k_cmp"),
                                     step_of(Stage::blocks, "p_grp"),
                                     step_of(Stage::o_sel, "q held_k_sel held_v_sel blocks"),
                                     step_of(Stage::o_win, "q held_k_win held_v_win"),
                                     step_of(Stage::gate, "x q"),
                                     step_of(Stage::y, "o_cmp o_sel o_win gate")};

// Every element decoded alone, and the same one of the whole sequence: visit(i, j). Tokens are the last axis but one.
template <typename Visit>
void for_each_pair(const std::vector<std::int64_t>& steps,
                   const std::vector<std::int64_t>& whole,
                   Visit visit) {
  const auto width = static_cast<std::size_t>(steps.back());
  const auto alone = static_cast<std::size_t>(steps[steps.size() - 2]);
  const auto all = static_cast<std::size_t>(whole[whole.size() - 2]);
  std::size_t lanes = 1;
  for (std::size_t axis = 0; axis + 2 < steps.size(); ++axis) {
    lanes *= static_cast<std::size_t>(steps[axis]);
  }
  for (std::size_t i = 0; i < lanes * alone * width; ++i) {
    const std::size_t lane = i / (alone * width);
    visit(i, (lane * all + all - alone) * width + i % (alone * width));
  }
}

bool fits_whole(const std::vector<std::int64_t>& steps,
                const std::vector<std::int64_t>& whole,
                std::int64_t from) {
  if (steps.size() != whole.size() || steps.size() < 2) return false;
  std::vector<std::int64_t> wanted = whole;
  wanted[wanted.size() - 2] -= from;
  return steps == wanted;
}

bool result_differs(const nsa::TensorView& steps, const nsa::TensorView& whole, double limit) {
  const Reals found(steps);
  const Reals wanted(whole);
  double scale = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) raise_to(scale, std::abs(wanted[i]));
  double most = 0.0;
  for_each_pair(steps.shape, whole.shape, [&](std::size_t i, std::size_t j) {
    raise_to(most, std::abs(found[i] - wanted[j]));
  });
  return most != 0.0 && !(most <= limit * scale);
}

bool chose_otherwise(const nsa::TensorView& steps, const nsa::TensorView& whole) {
  const std::vector<std::int64_t> found = nsa::to_int64s(steps);
  const std::vector<std::int64_t> wanted = nsa::to_int64s(whole);
  bool other = false;
  for_each_pair(steps.shape, whole.shape, [&](std::size_t i, std::size_t j) {
    other = other || found[i] != wanted[j];
  });
  return other;
}

// Of the whole sequence, the token that the first one on record is. A cache may have forgotten the oldest: how many are held is
// not judged here (reads_count.cpp).
std::int64_t first_token(const DecodedStage& stage,
                         const nsa::TensorView& found,
                         const nsa::TensorView& wanted,
                         std::int64_t prompt) {
  const bool cached = stage.op == kCache;
  const bool compressed = cached ? stage.branch == "cmp" : stage.op == "compress";
  if (compressed) return 0;
  if (!cached || found.shape.size() < 2) return prompt;
  const auto tokens = [](const nsa::TensorView& view) { return view.shape[view.shape.size() - 2]; };
  return wanted.shape.size() < 2 ? 0 : tokens(wanted) - tokens(found);
}

bool has_word(std::string_view words, const std::string& word) {
  return (" " + std::string(words) + " ").find(" " + word + " ") != std::string::npos;
}

class DecodedStages {
 public:
  DecodedStages(const nsa::SafetensorsFile& whole,
                const nsa::SafetensorsFile& steps,
                std::int64_t prompt,
                double limit)
      : whole_(whole), steps_(steps), prompt_(prompt), limit_(limit) {}

  DifferingStages differing() {
    for (const DecodedRow& row : kDecodedRows) {
      if (!whole_.contains(std::string(row.whole)) || !steps_.contains(std::string(row.tensor)))
        continue;
      const bool follows = is_made_of_what_differs(row);
      const bool differs = this->differs(row);
      if (differs || follows) differ_.emplace(row.tensor);
      if (!differs && !follows) continue;
      const bool compares = !row.holds.empty() && !holds_more(row);
      const bool first = follows ? compares && holds_another(row) : is_first(row);
      if (first) cache_told_ = cache_told_ || reads_cache(row);
      tell(row, first ? found_.first : found_.hidden);
    }
    return std::move(found_);
  }

 private:
  // What a cache held on the way is on no record: of the operations that work with caches only the first is told. A cache that
  // holds too many tokens was given too many, where anything before it differs.
  [[nodiscard]] bool is_first(const DecodedRow& row) const {
    if (reads_cache(row) && cache_told_) return false;
    return found_.first.empty() || row.op != kCache || !holds_more(row);
  }

  [[nodiscard]] static bool reads_cache(const DecodedRow& row) {
    const std::string_view op = row.op;
    return op == kCache || op == "compress" || op.substr(0, 7) == "attend_";
  }

  [[nodiscard]] bool holds_more(const DecodedRow& row) const {
    const auto& held = steps_.at(std::string(row.tensor)).shape;
    const auto& whole = whole_.at(std::string(row.whole)).shape;
    return held.size() > 1 && held.size() == whole.size() &&
           held[held.size() - 2] > whole[whole.size() - 2];
  }

  static void tell(const DecodedRow& row, std::vector<DecodedStage>& stages) {
    const auto same_op = [&](const DecodedStage& told) { return told.op == row.op; };
    if (std::none_of(stages.begin(), stages.end(), same_op)) stages.push_back(row);
  }

  [[nodiscard]] bool is_made_of_what_differs(const DecodedRow& row) const {
    return std::any_of(differ_.begin(), differ_.end(), [&](const std::string& tensor) {
      return has_word(row.made_of, tensor);
    });
  }

  [[nodiscard]] bool differs(const DecodedRow& row) const {
    const nsa::TensorView& wanted = whole_.at(std::string(row.whole));
    const nsa::TensorView& found = steps_.at(std::string(row.tensor));
    if (!fits_whole(found.shape, wanted.shape, first_token(row, found, wanted, prompt_))) {
      return true;
    }
    return row.tensor == "blocks" ? chose_otherwise(found, wanted)
                                  : result_differs(found, wanted, limit_);
  }

  // Does a cache hold other tokens than those that were appended to it? That says something of the cache alone.
  [[nodiscard]] bool holds_another(const DecodedRow& row) const {
    const nsa::TensorView& held = steps_.at(std::string(row.tensor));
    const nsa::TensorView& appended = steps_.at(std::string(row.holds));
    const auto from = [](const nsa::TensorView& less, const nsa::TensorView& more) {
      return more.shape[more.shape.size() - 2] - less.shape[less.shape.size() - 2];
    };
    if (held.shape.size() < 2 || held.shape.size() != appended.shape.size()) return false;
    const std::int64_t older = from(appended, held);  // tokens of the prompt that it holds too
    const bool more = older >= 0;
    const nsa::TensorView& shorter = more ? appended : held;
    const nsa::TensorView& longer = more ? held : appended;
    return fits_whole(shorter.shape, longer.shape, more ? older : -older) &&
           result_differs(shorter, longer, 0.0);
  }

  const nsa::SafetensorsFile& whole_;
  const nsa::SafetensorsFile& steps_;
  std::int64_t prompt_;
  double limit_;
  std::set<std::string> differ_;
  bool cache_told_ = false;
  DifferingStages found_;
};

}  // namespace

DifferingStages differing_stages(const nsa::SafetensorsFile& whole,
                                 const nsa::SafetensorsFile& steps,
                                 std::int64_t prompt,
                                 double limit) {
  return DecodedStages(whole, steps, prompt, limit).differing();
}

}  // namespace harness::checks
