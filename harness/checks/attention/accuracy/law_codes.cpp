#include "harness/checks/attention/accuracy/law_codes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace harness::checks {
namespace {

using oracles::Stage;

struct Row {
  std::string_view law;
  std::string_view code;
  std::string_view op = {};     // where another operation than the stage's own is to blame
  std::string_view param = {};  // likewise; without the branch's name
};

constexpr std::string_view kForward = "NUMERIC.FORWARD";

// Laws that stand for more than a wrong number at their stage.
constexpr std::array kRows = {
    Row{"top_left", "MASK.ALIGNMENT"},
    Row{"inverted", "MASK.POLARITY"},
    Row{"inverted_past", "MASK.POLARITY"},
    Row{"inverted_slice", "MASK.POLARITY"},
    Row{"no_mask", "MASK.ABSENT"},
    Row{"every_key", "MASK.ABSENT"},
    Row{"every_past_key", "MASK.ABSENT"},
    Row{"offsets_begin_again", "OVERFLOW.INDEX"},
    Row{"empty_slots_block_zero", "RANGE.INVALID"},
    Row{"empty_slots_key_zero", "RANGE.INVALID"},
    Row{"learned", "GATE.OVERRIDE", "gate"},
    Row{"weights_of_cmp", kForward, "project"},
    Row{"weights_of_sel", kForward, "project"},
    Row{"weights_of_win", kForward, "project"},
    Row{"keys_and_values_of_sel", kForward, "", "W_K_"},
    Row{"keys_and_values_of_win", kForward, "", "W_K_"},
    Row{"keys_of_sel", kForward, "", "W_K_"},
    Row{"keys_of_win", kForward, "", "W_K_"},
    Row{"values_of_sel", kForward, "", "W_V_"},
    Row{"values_of_win", kForward, "", "W_V_"},
};

Row row_of(std::string_view law) {
  const auto* const at =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.law == law; });
  return at == kRows.end() ? Row{law, kForward} : *at;
}

// What all laws have in common, "" where they differ.
std::string_view common(const oracles::Naming& naming, std::string_view Row::*field) {
  const std::string_view first = row_of(naming.fitting.front().law.name).*field;
  const bool agree =
      std::all_of(naming.fitting.begin(), naming.fitting.end(), [&](const oracles::LawFit& fit) {
        return row_of(fit.law.name).*field == first;
      });
  return agree ? first : std::string_view();
}

}  // namespace

std::string code_of(const std::vector<KnownLaw>& laws) {
  const std::string_view first = row_of(laws.front().name).code;
  const bool agree = std::all_of(laws.begin(), laws.end(), [&](const KnownLaw& law) {
    return row_of(law.name).code == first;
  });
  return std::string(agree ? first : kForward);
}

std::vector<std::string_view> laws_with_codes() {
  std::vector<std::string_view> laws;
  for (const Row& row : kRows) laws.push_back(row.law);
  return laws;
}

void explain(const oracles::Naming& naming, Departure& seen) {
  if (!naming.fitting.empty()) seen.laws = known_laws(naming);
}

void explain(const oracles::Naming& naming, Stage stage, Departure& seen) {
  explain(naming, seen);
  if (naming.fitting.empty()) return;
  const std::string_view code = common(naming, &Row::code);
  const std::string_view op = common(naming, &Row::op);
  const std::string_view param = common(naming, &Row::param);
  if (!code.empty()) seen.code = code;
  if (!op.empty()) seen.site.op = op;
  if (!param.empty()) seen.site.param = std::string(param) + oracles::branch_name(branch_of(stage));
}

}  // namespace harness::checks
