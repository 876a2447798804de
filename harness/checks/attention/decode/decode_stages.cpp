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

constexpr const char* kCache = "cache";

struct DecodedRow : DecodedStage {
  // In kSteps: what it is made of. Of raw keys a cache is not on record, and is trusted where the caches that are on record are
  // right.
  std::string_view made_of;
  const char* holds = "";  // of a cache: what was appended, a token at a time
};

constexpr std::string_view kRawKeys = "k_raw held_k_sel held_v_sel held_k_win held_v_win";
constexpr std::string_view kRawValues = "v_raw held_k_sel held_v_sel held_k_win held_v_win";

// Those of the attention as layer_judge.cpp has them, its input before, the choice of blocks between. Caches of tokens come before
// compressed tokens, which are made from what such a cache holds.
constexpr std::array kDecodedRows = {
    DecodedRow{{"x", "input", "", "x"}, ""},
    DecodedRow{{"q", "rope", "", "q"}, "x"},
    DecodedRow{{"k_raw", "rope", "cmp", "k_raw"}, "x"},
    DecodedRow{{"v_raw", "project", "cmp", "v_raw"}, "x"},
    DecodedRow{{"k_sel", "rope", "sel", "k_sel"}, "x"},
    DecodedRow{{"v_sel", "project", "sel", "v_sel"}, "x"},
    DecodedRow{{"k_win", "rope", "win", "k_win"}, "x"},
    DecodedRow{{"v_win", "project", "win", "v_win"}, "x"},
    DecodedRow{{"held_k_sel", kCache, "sel", "k_sel"}, "k_sel", "k_sel"},
    DecodedRow{{"held_v_sel", kCache, "sel", "v_sel"}, "v_sel", "v_sel"},
    DecodedRow{{"held_k_win", kCache, "win", "k_win"}, "k_win", "k_win"},
    DecodedRow{{"held_v_win", kCache, "win", "v_win"}, "v_win", "v_win"},
    DecodedRow{{"made_k_cmp", "compress", "cmp", "k_cmp"}, kRawKeys},
    DecodedRow{{"made_v_cmp", "compress", "cmp", "v_cmp"}, kRawValues},
    DecodedRow{{"k_cmp", kCache, "cmp", "k_cmp"}, "made_k_cmp"},
    DecodedRow{{"v_cmp", kCache, "cmp", "v_cmp"}, "made_v_cmp"},
    DecodedRow{{"o_cmp", "attend_cmp", "cmp", "o_cmp"}, "q k_cmp v_cmp made_k_cmp made_v_cmp"},
    DecodedRow{{"p_grp", "score", "", "p_grp"}, "q k_cmp made_k_cmp"},
    DecodedRow{{"blocks", "select", "", "blocks"}, "p_grp"},
    DecodedRow{{"o_sel", "attend_sel", "sel", "o_sel"}, "q held_k_sel held_v_sel blocks"},
    DecodedRow{{"o_win", "attend_win", "win", "o_win"}, "q held_k_win held_v_win"},
    DecodedRow{{"gate", "gate", "", "gate"}, "x q"},
    DecodedRow{{"y", "attention", "", "y"}, "o_cmp o_sel o_win gate"}};

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
  const bool cached = std::string_view(stage.op) == kCache;
  const bool compressed =
      cached ? std::string_view(stage.branch) == "cmp" : std::string_view(stage.op) == "compress";
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
      if (!whole_.contains(row.whole) || !steps_.contains(row.tensor)) continue;
      const bool follows = is_made_of_what_differs(row);
      const bool differs = this->differs(row);
      if (differs || follows) differ_.insert(row.tensor);
      if (!differs && !follows) continue;
      const bool compares = *row.holds != 0 && !holds_more(row);
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
    return found_.first.empty() || std::string_view(row.op) != kCache || !holds_more(row);
  }

  [[nodiscard]] static bool reads_cache(const DecodedRow& row) {
    const std::string_view op = row.op;
    return op == kCache || op == "compress" || op.substr(0, 7) == "attend_";
  }

  [[nodiscard]] bool holds_more(const DecodedRow& row) const {
    const auto& held = steps_.at(row.tensor).shape;
    const auto& whole = whole_.at(row.whole).shape;
    return held.size() > 1 && held.size() == whole.size() &&
           held[held.size() - 2] > whole[whole.size() - 2];
  }

  static void tell(const DecodedRow& row, std::vector<DecodedStage>& stages) {
    const auto same_op = [&](const DecodedStage& told) {
      return std::string_view(told.op) == row.op;
    };
    if (std::none_of(stages.begin(), stages.end(), same_op)) stages.push_back(row);
  }

  [[nodiscard]] bool is_made_of_what_differs(const DecodedRow& row) const {
    return std::any_of(differ_.begin(), differ_.end(), [&](const std::string& tensor) {
      return has_word(row.made_of, tensor);
    });
  }

  [[nodiscard]] bool differs(const DecodedRow& row) const {
    const nsa::TensorView& wanted = whole_.at(row.whole);
    const nsa::TensorView& found = steps_.at(row.tensor);
    if (!fits_whole(found.shape, wanted.shape, first_token(row, found, wanted, prompt_))) {
      return true;
    }
    return std::string_view(row.tensor) == "blocks" ? chose_otherwise(found, wanted)
                                                    : result_differs(found, wanted, limit_);
  }

  // Does a cache hold other tokens than those that were appended to it? That says something of the cache alone.
  [[nodiscard]] bool holds_another(const DecodedRow& row) const {
    const nsa::TensorView& held = steps_.at(row.tensor);
    const nsa::TensorView& appended = steps_.at(row.holds);
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
