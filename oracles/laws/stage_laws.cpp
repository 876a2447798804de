#include "oracles/laws/stage_laws.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "oracles/laws/stage_rules.h"

namespace oracles {
namespace {

const std::vector<StageRule>& rules() {
  static const std::vector<StageRule> kRules = [] {
    std::vector<StageRule> all;
    for (const auto part : {projection_rules,
                            compression_rules,
                            score_rules,
                            choice_rules,
                            attend_rules,
                            gate_rules,
                            mixing_rules}) {
      std::vector<StageRule> some = part();
      std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
  }();
  return kRules;
}

bool makes_sense(const StageRule& rule, const StageInputs& in, Stage stage) {
  const std::vector<Stage>& stages = rule.law.stages;
  return std::find(stages.begin(), stages.end(), stage) != stages.end() &&
         (!rule.makes_sense || rule.makes_sense(in, stage));
}

Tensor as_numbers(const IntTensor& blocks) {
  return {blocks.shape, {blocks.data.begin(), blocks.data.end()}};
}

}  // namespace

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, 16> kNames{"q",
                                                    "k_cmp_raw",
                                                    "v_cmp_raw",
                                                    "k_sel",
                                                    "v_sel",
                                                    "k_win",
                                                    "v_win",
                                                    "k_cmp",
                                                    "v_cmp",
                                                    "p_grp",
                                                    "blocks",
                                                    "o_cmp",
                                                    "o_sel",
                                                    "o_win",
                                                    "gate",
                                                    "y"};
  return kNames.at(static_cast<std::size_t>(stage));
}

std::span<const Stage> all_stages() {
  using enum Stage;
  static constexpr std::array<Stage, 16> kStages{q,
                                                 k_cmp_raw,
                                                 v_cmp_raw,
                                                 k_sel,
                                                 v_sel,
                                                 k_win,
                                                 v_win,
                                                 k_cmp,
                                                 v_cmp,
                                                 p_grp,
                                                 blocks,
                                                 o_cmp,
                                                 o_sel,
                                                 o_win,
                                                 gate,
                                                 y};
  return kStages;
}

std::span<const StageLaw> stage_laws() {
  static const std::vector<StageLaw> kLaws = [] {
    std::vector<StageLaw> laws;
    for (const StageRule& rule : rules()) {
      laws.push_back(rule.law);
    }
    return laws;
  }();
  return kLaws;
}

Branch branch_of(Stage stage) {
  switch (stage) {
    case Stage::k_sel:
    case Stage::v_sel:
    case Stage::o_sel: return Branch::sel;
    case Stage::k_win:
    case Stage::v_win:
    case Stage::o_win: return Branch::win;
    default: return Branch::cmp;
  }
}

const Tensor& right_tensor(const StageInputs& in, Stage stage) {
  const AttentionResult& result = in.forward.result;
  const Projections& projections = in.forward.projections;
  const BranchKeys& keys = projections.branches[index_of(branch_of(stage))];
  switch (stage) {
    case Stage::q: return projections.q_BGhRD;
    case Stage::k_cmp_raw: return projections.raw_cmp.k;
    case Stage::v_cmp_raw: return projections.raw_cmp.v;
    case Stage::k_cmp:
    case Stage::k_sel:
    case Stage::k_win: return keys.k;
    case Stage::v_cmp:
    case Stage::v_sel:
    case Stage::v_win: return keys.v;
    case Stage::p_grp: return result.p_grp;
    case Stage::o_cmp: return result.o_cmp;
    case Stage::o_sel: return result.o_sel;
    case Stage::o_win: return result.o_win;
    case Stage::gate: return result.gate;
    case Stage::y: return result.y;
    default: throw std::invalid_argument("blocks are no tensor of floating point numbers");
  }
}

StageLawOutputs::StageLawOutputs(const AttentionConfig& config,
                                 const Weights& weights,
                                 const Tensor& x,
                                 const AttentionOptions& options) {
  auto inputs = std::make_unique<StageInputs>();
  inputs->config = config;
  inputs->weights = weights;
  inputs->x = x;
  inputs->threads = options.threads;
  inputs->forward = run_forward(inputs->layer(), x, options);
  inputs_ = std::move(inputs);
}

StageLawOutputs::~StageLawOutputs() = default;
StageLawOutputs::StageLawOutputs(StageLawOutputs&&) noexcept = default;
StageLawOutputs& StageLawOutputs::operator=(StageLawOutputs&&) noexcept = default;

Tensor StageLawOutputs::right(Stage stage) const {
  return stage == Stage::blocks ? as_numbers(inputs_->forward.result.blocks)
                                : right_tensor(*inputs_, stage);
}

std::vector<std::string_view> StageLawOutputs::laws(Stage stage) const {
  std::vector<std::string_view> names;
  for (const StageRule& rule : rules()) {
    if (makes_sense(rule, *inputs_, stage)) {
      names.push_back(rule.law.name);
    }
  }
  return names;
}

Tensor StageLawOutputs::output(std::string_view law, Stage stage) const {
  for (const StageRule& rule : rules()) {
    if (rule.law.name == law && makes_sense(rule, *inputs_, stage)) {
      return rule.output(*inputs_, stage);
    }
  }
  throw std::invalid_argument("no stage law " + std::string(law) + " for " +
                              std::string(stage_name(stage)) + " of this layer");
}

}  // namespace oracles
