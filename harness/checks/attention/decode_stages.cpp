#include "harness/checks/attention/decode_stages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/checks/largest.h"

namespace harness::checks {
namespace {

// Those of the attention as layer_judge.cpp has them, its input before, the choice of blocks between.
constexpr std::array kDecodedStages = {DecodedStage{"x", "input", ""},
                                       DecodedStage{"q", "rope", ""},
                                       DecodedStage{"k_raw", "rope", "cmp"},
                                       DecodedStage{"v_raw", "project", "cmp"},
                                       DecodedStage{"k_sel", "rope", "sel"},
                                       DecodedStage{"v_sel", "project", "sel"},
                                       DecodedStage{"k_win", "rope", "win"},
                                       DecodedStage{"v_win", "project", "win"},
                                       DecodedStage{"k_cmp", "compress", "cmp"},
                                       DecodedStage{"v_cmp", "compress", "cmp"},
                                       DecodedStage{"o_cmp", "attend_cmp", "cmp"},
                                       DecodedStage{"p_grp", "score", ""},
                                       DecodedStage{"blocks", "select", ""},
                                       DecodedStage{"o_sel", "attend_sel", "sel"},
                                       DecodedStage{"o_win", "attend_win", "win"},
                                       DecodedStage{"gate", "gate", ""},
                                       DecodedStage{"y", "attention", ""}};

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

}  // namespace

const DecodedStage* first_to_differ(const nsa::SafetensorsFile& whole,
                                    const nsa::SafetensorsFile& steps,
                                    std::int64_t prompt,
                                    double limit) {
  const auto* const at =
      std::find_if(kDecodedStages.begin(), kDecodedStages.end(), [&](const DecodedStage& stage) {
        const std::string name = stage.tensor;
        if (!whole.contains(name) || !steps.contains(name)) return false;
        const nsa::TensorView& wanted = whole.at(name);
        const nsa::TensorView& found = steps.at(name);
        const bool of_tokens = std::string(stage.op) != "compress";
        if (!fits_whole(found.shape, wanted.shape, of_tokens ? prompt : 0)) return true;
        return name == "blocks" ? chose_otherwise(found, wanted)
                                : result_differs(found, wanted, limit);
      });
  return at == kDecodedStages.end() ? nullptr : at;
}

}  // namespace harness::checks
