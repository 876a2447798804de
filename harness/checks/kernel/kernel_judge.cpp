#include "harness/checks/kernel/kernel_judge.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/kernel/kernel_gradient.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "harness/checks/kernel/kernel_roundings.h"
#include "harness/checks/largest.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"
#include "oracles/attention/backward.h"
#include "oracles/attention/narrow_steps.h"
#include "oracles/laws/backward_laws.h"
#include "oracles/laws/stage_laws.h"
#include "oracles/laws/tiled_laws.h"

namespace harness::checks {
namespace {

using oracles::BranchGradients;
using oracles::RecordedGradient;
using oracles::Stage;
using oracles::Stages;
using oracles::Tensor;

constexpr double kLn2 = 0.69314718055994530942;

// One vector where the pattern would show in a result that is right. What other fitted laws give elsewhere is not known.
std::vector<std::size_t> refuting_pattern(const Tensor& found,
                                          const Tensor& wanted,
                                          const KnownLaw& law,
                                          const ComparedTensor& compared) {
  constexpr double kOfSum = 0.1;  // a head's share of a sum over heads, at least
  const bool of_heads = law.name == kSharesOfHeads;
  const bool shows = of_heads ? kOfSum * (law.number - 1.0) * oracles::finite_scale(wanted) >
                                    compared.allowed.of(wanted)
                              : oracles::is_pattern(law.name) &&
                                    oracles::refutes_pattern(
                                        law.name, law.number, found, wanted, compared.allowed);
  return shows ? std::vector<std::size_t>{0} : std::vector<std::size_t>{};
}

class KernelJudge {
 public:
  KernelJudge(const Scenario& scenario, const KernelCall& call)
      : scenario_(scenario),
        call_(call),
        record_(call.record),
        sums_(kernel_model(scenario), 1, call.record.length) {}

  LayerJudgement judge() {
    verdict_ = judge_layer(record_, kernel_model(scenario_));
    for (Departure& seen : verdict_.departures) {
      tell_not_finite(record_.at(seen.tensors.front()), seen);
    }
    if (record_.kept) tell_roundings();
    const oracles::AttentionOptions options = options_of(record_);
    Stages stages(record_.config, record_.weights, record_.x, options);
    give_recorded(record_, stages);
    if (call_.lse) judge_lse(stages);
    // What the backward of another function should be, the oracle does not know.
    if (call_.gradients.empty() || !verdict_.departures.empty()) return std::move(verdict_);
    judge_gradients(stages);
    return std::move(verdict_);
  }

  [[nodiscard]] std::vector<std::size_t> refuting(const AskedLaw& asked) const {
    Stages stages(record_.config, record_.weights, record_.x, options_of(record_));
    give_inputs(record_, stages);
    if (asked.about == kGradients) return refuting_gradients(stages, asked);
    const auto at = asked.compared.find(asked.about);
    if (at == asked.compared.end()) return {};
    if (asked.about == "lse") return refuting_sums(stages, at->second);
    if (is_rounding(asked.law.name)) return refuting_rounding(asked);
    return checks::refuting(stages,
                            oracles::stage_named(asked.about).value(),
                            record_.at(asked.about),
                            asked.law,
                            at->second);
  }

 private:
  // The oracle in the type on record. REQUIRES: a narrow one.
  template <typename Use>
  auto with_plain(Use use) const {
    oracles::AttentionOptions options = options_of(record_);
    options.kept = *record_.kept;
    Stages plain(record_.config, record_.weights, record_.x, options);
    give_inputs(record_, plain);
    const double factor =
        logit_ratio(scenario_) / std::sqrt(static_cast<double>(record_.config.d_k));
    return use(NarrowOutput{plain, call_.branch, factor, record_.at("o_" + branch())});
  }

  // What the spec allows is none if the error is within the budget of the oracle that rounds there too.
  void tell_roundings() {
    for (Departure& seen : verdict_.departures) {
      if (seen.code == kNotFinite) continue;
      const auto named = with_plain([](const NarrowOutput& output) { return rounding_of(output); });
      if (!named) continue;
      seen.laws.push_back(named->law);
      if (!allows(scenario_, named->law.name)) continue;
      const Spent budget = spent_beside(named->output, seen.tensors.front());
      verdict_.errors[seen.tensors.front()] = {budget.error, budget.limit};
      if (budget.within()) seen.code.clear();
    }
    std::erase_if(verdict_.departures, [](const Departure& seen) { return seen.code.empty(); });
  }

  [[nodiscard]] Spent spent_beside(const Tensor& plain, const std::string& name) const {
    Stages stages(record_.config, record_.weights, record_.x, options_of(record_));
    give_inputs(record_, stages);
    const Tensor wanted = stages.right(oracles::output_stage(call_.branch));
    Measured measured{record_.at(name), wanted, plain, record_.kept->results};
    measured.summed = ceiling(sums_.gradient, record_.arithmetic.summed) *
                      verdict_.compared.at(name).allowed.scale;
    tell_heads_apart(measured);
    return spent(measured);
  }

  [[nodiscard]] std::vector<std::size_t> refuting_rounding(const AskedLaw& asked) const {
    const bool refuted = record_.kept && with_plain([&](const NarrowOutput& output) {
                           return refutes_rounding(asked.law.name, output);
                         });
    return refuted ? std::vector<std::size_t>{0} : std::vector<std::size_t>{};
  }

  // Their laws are of the base of the logarithm.
  [[nodiscard]] std::vector<std::size_t> refuting_sums(const Stages& stages,
                                                       const ComparedTensor& compared) const {
    const bool shows = (1.0 - kLn2) * oracles::finite_scale(right_lse(stages)) >
                       2.0 * compared.allowed.relative * compared.allowed.scale;
    return compared.wrong.empty() && shows ? std::vector<std::size_t>{0}
                                           : std::vector<std::size_t>{};
  }

  [[nodiscard]] std::vector<std::size_t> refuting_gradients(const Stages& stages,
                                                            const AskedLaw& asked) const {
    const oracles::Backward backward(stages, call_.branch, call_.d_o);
    const BranchGradients& right = backward.through(call_.branch);
    const oracles::BackwardLaw* const law = oracles::backward_law(asked.law.name);
    std::vector<std::size_t> all;
    for (const auto& [of, tensor] : {std::pair{"q", &BranchGradients::q},
                                     std::pair{"k", &BranchGradients::k},
                                     std::pair{"v", &BranchGradients::v}}) {
      const auto at = asked.compared.find(std::string("d") + of);
      if (at == asked.compared.end()) continue;
      const Tensor& found = call_.gradients.at(of);
      const ComparedTensor& compared = at->second;
      std::vector<std::size_t> own;
      if (law != nullptr) {
        own = oracles::refuting_vectors(
            found, right.*tensor, law->through(backward, call_.branch).*tensor, compared.allowed);
      } else if (compared.wrong.empty() && asked.tensors.contains(at->first)) {
        own = refuting_pattern(found, right.*tensor, asked.law, compared);
      }
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  [[nodiscard]] std::string branch() const {
    return std::string(oracles::branch_name(call_.branch));
  }

  [[nodiscard]] Departure departure(const char* code) const {
    Departure seen;
    seen.code = code;
    seen.site.branch = branch();
    seen.site.op = "attend_" + branch();
    return seen;
  }

  // ---- sums of the softmax --------------------------------------------------------------------------------------

  // log sum exp of a row's logits, NaN where it has no keys: what stands there is not judged.
  [[nodiscard]] Tensor right_lse(const Stages& stages) const {
    const oracles::Sizes& n = stages.sizes();
    const std::vector<oracles::KeyBank>& banks = stages.banks(call_.branch);
    const Tensor& q = stages.input(oracles::Stage::q);
    Tensor lse = oracles::filled(call_.lse->shape, std::nan(""));
    std::vector<double> logits;
    for (std::int64_t group = 0; group < n.batch_groups(); ++group) {
      for (std::int64_t row = 0; row < n.rows; ++row) {
        const oracles::KeyList keys = oracles::visible_keys(stages.query(call_.branch, group, row));
        const auto count = static_cast<std::size_t>(oracles::key_count(keys));
        if (count == 0) continue;
        oracles::scaled_logits(banks[static_cast<std::size_t>(group)],
                               keys,
                               oracles::head_rows(q, group, row),
                               logits);
        for (std::int64_t head = 0; head < n.heads; ++head) {
          const auto begin = logits.begin() + head * static_cast<std::ptrdiff_t>(count);
          const auto end = begin + static_cast<std::ptrdiff_t>(count);
          const double most = *std::max_element(begin, end);
          double sum = 0.0;
          for (auto at = begin; at != end; ++at) sum += std::exp(*at - most);
          lse.data[static_cast<std::size_t>((group * n.heads + head) * n.rows + row)] =
              most + std::log(sum);
        }
      }
    }
    return lse;
  }

  // The largest difference from `factor` times the right ones.
  [[nodiscard]] double lse_difference(const Tensor& right, double factor) const {
    double most = 0.0;
    for (std::size_t i = 0; i < right.data.size(); ++i) {
      if (std::isnan(right.data[i])) continue;
      raise_to(most, std::abs(call_.lse->data[i] - factor * right.data[i]));
    }
    return most;
  }

  // A number is a vector of its own.
  [[nodiscard]] ComparedTensor compared_lse(Tensor right,
                                            double factor,
                                            const oracles::Allowed& allowed) const {
    Tensor found = *call_.lse;
    for (Tensor* tensor : {&right, &found}) tensor->shape.push_back(1);
    for (double& value : right.data) value *= factor;
    return compared(found,
                    right,
                    allowed,
                    oracles::wrong_vectors(found, right, allowed.relative * allowed.scale));
  }

  void judge_lse(const Stages& stages) {
    const Tensor right = right_lse(stages);
    const bool base_two = scenario_.kernel.lse == "2";
    const double factor = base_two ? 1.0 / kLn2 : 1.0;
    const double scale = std::max(1.0, factor * oracles::finite_scale(right));
    const double unit = std::max(call_.lse_unit_roundoff, record_.arithmetic.summed);
    const double limit = ceiling(sums_.gradient, unit, record_.arithmetic.summed);
    const double error = lse_difference(right, factor) / scale;
    verdict_.errors["lse"] = {error, limit};
    verdict_.compared["lse"] = compared_lse(right, factor, {limit, scale, unit});
    if (error <= limit) return;
    Departure seen = departure("NUMERIC.FORWARD");
    seen.tensors = {"lse"};
    seen.error = error;
    seen.limit = limit;
    seen.site.detail["row_count"] = record_.lists() * record_.row_count();
    seen.facts["rows_in_all"] = record_.lists() * record_.row_count();
    if (lse_difference(right, base_two ? 1.0 : 1.0 / kLn2) / scale <= limit) {
      seen.laws = {base_two
                       ? KnownLaw{"logarithm_to_base_e", "the natural logarithm of the sums"}
                       : KnownLaw{"logarithm_to_base_two", "the logarithm of the sums to base 2"}};
    }
    verdict_.departures.push_back(std::move(seen));
  }

  // ---- gradients ------------------------------------------------------------------------------------------------

  void judge_gradients(const Stages& stages) {
    const oracles::Backward backward(stages, call_.branch, call_.d_o);
    const Gradients right = named(backward.through(call_.branch));
    const GradientsOfCall call{call_.gradients, right, sums_.gradient, in_type()};
    std::vector<RecordedGradient> judged;
    if (auto seen = judge_gradients_of_call(record_, call, verdict_, judged)) {
      seen->site.branch = branch();
      seen->site.op = "attend_" + branch();
      explain_gradients(backward, judged, *seen);
      verdict_.departures.push_back(std::move(*seen));
    }
  }

  static Gradients named(const BranchGradients& of_branch) {
    return {{"q", of_branch.q}, {"k", of_branch.k}, {"v", of_branch.v}};
  }

  // At the output that the kernel gave. With rounded queries too, where the case allows them.
  [[nodiscard]] decltype(GradientsOfCall::in_type) in_type() const {
    return [this](const oracles::Kept& kept, oracles::Backward::Mean mean) {
      oracles::AttentionOptions options = options_of(record_);
      options.kept = kept;
      Stages stages(record_.config, record_.weights, record_.x, options);
      give_recorded(record_, stages);
      const oracles::Backward backward(stages, call_.branch, call_.d_o, mean);
      std::vector<Gradients> ways = {named(backward.through(call_.branch))};
      if (!allows(scenario_, kScaledQuery)) return ways;
      const Tensor q = with_rounded_queries(stages, oracles::ScoreRounding::scaled_query);
      Stages other(record_.config, record_.weights, record_.x, options);
      give_inputs(record_, other);
      other.record(Stage::q, q);
      const oracles::Backward of_other(other, call_.branch, call_.d_o, mean);
      ways.push_back(named(of_other.through(call_.branch)));
      return ways;
    };
  }

  // Which heads, and by which law.
  void explain_gradients(const oracles::Backward& backward,
                         const std::vector<RecordedGradient>& all,
                         Departure& seen) const {
    std::set<int> heads;
    std::map<int, double> counts;
    bool counted = true;
    for (const RecordedGradient& judged : all) {
      const std::string name = "d" + judged.of;
      if (std::find(seen.tensors.begin(), seen.tensors.end(), name) == seen.tensors.end()) continue;
      const oracles::WrongHeads of_heads = oracles::wrong_heads(backward, call_.branch, judged);
      heads.insert(of_heads.heads.begin(), of_heads.heads.end());
      counted = counted && !of_heads.counts.empty();
      counts.insert(of_heads.counts.begin(), of_heads.counts.end());
    }
    if (static_cast<std::int64_t>(heads.size()) < record_.config.n_heads)
      seen.site.heads = to_ints(heads);
    if (seen.code == kNotFinite) return;
    explain(oracles::name_gradients(backward, call_.branch, all), seen);
    if (seen.laws.empty() && counted) put_shares_of_heads(counts, seen);
  }

  const Scenario& scenario_;
  const KernelCall& call_;
  const LayerRecord& record_;
  LongestSums sums_;
  LayerJudgement verdict_;
};

}  // namespace

std::vector<std::size_t> refuting(const Stages& stages,
                                  Stage stage,
                                  const Tensor& found,
                                  const KnownLaw& law,
                                  const ComparedTensor& compared) {
  for (const oracles::StageLaw* known : oracles::stage_laws(stage, stages)) {
    if (known->law.name != law.name) continue;
    return oracles::refuting_vectors(
        found, stages.right(stage), known->output(stages, stage), compared.allowed);
  }
  if (oracles::tiled_law(law.name) != nullptr) {
    return oracles::refuting_vectors(
        found,
        stages.right(stage),
        oracles::tiled_output(law.name, law.detail, stages, oracles::branch_of(stage)),
        compared.allowed);
  }
  if (!compared.wrong.empty()) return {};
  return refuting_pattern(found, stages.right(stage), law, compared);
}

Tensor right_output(const KernelCall& call) {
  const LayerRecord& record = call.record;
  Stages stages(record.config, record.weights, record.x, options_of(record));
  give_inputs(record, stages);
  return stages.right(oracles::output_stage(call.branch));
}

std::vector<std::size_t> refuting(const Scenario& scenario,
                                  const KernelCall& call,
                                  const AskedLaw& asked) {
  return KernelJudge(scenario, call).refuting(asked);
}

LayerJudgement judge_kernel_call(const Scenario& scenario, const KernelCall& call) {
  return KernelJudge(scenario, call).judge();
}

}  // namespace harness::checks
