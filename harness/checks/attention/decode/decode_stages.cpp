#include "harness/checks/attention/decode/decode_stages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/checks/largest.h"

namespace harness::checks {
namespace {

constexpr const char* kCache = "cache";

// Those of the attention as layer_judge.cpp has them, its input before, the choice of blocks between. Caches of tokens come before
// compressed tokens, which are made from what such a cache holds.
constexpr std::array kDecodedStages = {DecodedStage{"x", "input", "", "x"},
                                       DecodedStage{"q", "rope", "", "q"},
                                       DecodedStage{"k_raw", "rope", "cmp", "k_raw"},
                                       DecodedStage{"v_raw", "project", "cmp", "v_raw"},
                                       DecodedStage{"k_sel", "rope", "sel", "k_sel"},
                                       DecodedStage{"v_sel", "project", "sel", "v_sel"},
                                       DecodedStage{"k_win", "rope", "win", "k_win"},
                                       DecodedStage{"v_win", "project", "win", "v_win"},
                                       DecodedStage{"held_k_sel", kCache, "sel", "k_sel"},
                                       DecodedStage{"held_v_sel", kCache, "sel", "v_sel"},
                                       DecodedStage{"held_k_win", kCache, "win", "k_win"},
                                       DecodedStage{"held_v_win", kCache, "win", "v_win"},
                                       DecodedStage{"made_k_cmp", "compress", "cmp", "k_cmp"},
                                       DecodedStage{"made_v_cmp", "compress", "cmp", "v_cmp"},
                                       DecodedStage{"k_cmp", kCache, "cmp", "k_cmp"},
                                       DecodedStage{"v_cmp", kCache, "cmp", "v_cmp"},
                                       DecodedStage{"o_cmp", "attend_cmp", "cmp", "o_cmp"},
                                       DecodedStage{"p_grp", "score", "", "p_grp"},
                                       DecodedStage{"blocks", "select", "", "blocks"},
                                       DecodedStage{"o_sel", "attend_sel", "sel", "o_sel"},
                                       DecodedStage{"o_win", "attend_win", "win", "o_win"},
                                       DecodedStage{"gate", "gate", "", "gate"},
                                       DecodedStage{"y", "attention", "", "y"}};

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

}  // namespace

const DecodedStage* first_to_differ(const nsa::SafetensorsFile& whole,
                                    const nsa::SafetensorsFile& steps,
                                    std::int64_t prompt,
                                    double limit) {
  const auto* const at =
      std::find_if(kDecodedStages.begin(), kDecodedStages.end(), [&](const DecodedStage& stage) {
        const std::string name = stage.tensor;
        if (!whole.contains(stage.whole) || !steps.contains(name)) return false;
        const nsa::TensorView& wanted = whole.at(stage.whole);
        const nsa::TensorView& found = steps.at(name);
        if (!fits_whole(found.shape, wanted.shape, first_token(stage, found, wanted, prompt))) {
          return true;
        }
        return name == "blocks" ? chose_otherwise(found, wanted)
                                : result_differs(found, wanted, limit);
      });
  return at == kDecodedStages.end() ? nullptr : at;
}

}  // namespace harness::checks
