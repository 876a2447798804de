// Is a back end as good as the plain implementation in the same dtype on the same device? Both are measured against the float64
// oracle, which replays the blocks that each of them chose: the back end may be twice as far from it as the plain one, three
// times in gradients, and half as much again on average. The first-principles ceiling binds too.
#include <cmath>
#include <stdexcept>

#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr const char* kReference = "attention_layer_reference";
constexpr double kForwardFactor = 2.0;
constexpr double kGradientFactor = 3.0;
constexpr double kMeanFactor = 1.5;  // of the root mean square
constexpr double kUlps = 4.0;

using oracles::Tensor;

struct Errors {
  double most = 0.0;
  double mean = 0.0;  // root mean square
};

Errors errors_of(const Tensor& found, const Tensor& wanted) {
  Errors errors;
  double squares = 0.0;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    const double error = std::abs(found.data[i] - wanted.data[i]);
    raise_to(errors.most, error);
    squares += error * error;
  }
  errors.mean =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, wanted.data.size())));
  return errors;
}

double mean_of(const Tensor& tensor) {
  double squares = 0.0;
  for (const double value : tensor.data) squares += value * value;
  return std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, tensor.data.size())));
}

// A record and what the oracle makes of it.
struct Side {
  LayerRecord record;
  oracles::AttentionPass pass;
};

bool can_be_replayed(const LayerRecord& record) {
  const UnusableRows rows = unusable_rows(record);
  return rows.out_of_range.empty() && rows.malformed.empty();
}

oracles::AttentionPass pass_of(const LayerRecord& record) {
  const oracles::AttentionOptions options = options_of(record);
  if (record.dy && !record.dy_elsewhere) {
    return oracles::attention_with_gradients(
        record.config, record.weights, record.x, *record.dy, options);
  }
  return {oracles::attention(record.config, record.weights, record.x, options), {}};
}

class ReferenceComparison {
 public:
  explicit ReferenceComparison(const Evidence& evidence)
      : evidence_(evidence), model_(evidence.the_case.scenario.model) {}

  CheckResult judge() {
    for (int layer = 0; layer < model_.n_layers; ++layer) judge_layer(layer);
    departures_.tell(result_);
    for (const auto& [tensor, share] : shares_) {
      result_.measured("share_of_budget_" + tensor, share, 1.0);
    }
    std::string worst;
    double most = -1.0;
    for (const auto& [tensor, share] : shares_) {
      if (share <= most) continue;
      most = share;
      worst = tensor;
    }
    return result_.finish("in " + counted(judged_, "layer") +
                          " every tensor is as near to the oracle as the plain implementation "
                          "allows; nearest to its budget is " +
                          worst + " (" + nsa::to_text(most, 2) + " of it)");
  }

 private:
  void judge_layer(int layer) {
    const LayerPlace at{0, 1, layer};
    auto own = open_record(evidence_, at, kLayer, result_);
    auto plain = open_record(evidence_, at, kReference, result_);
    if (!own || !plain) return;
    try {
      if (!comparable(*own, *plain, at)) return;
      Side x{std::move(*own), {}};
      Side l{std::move(*plain), {}};
      x.pass = pass_of(x.record);
      l.pass = x.record.blocks.data == l.record.blocks.data ? x.pass : pass_of(l.record);
      ++judged_;
      if (!judge_forward(x, l, layer)) judge_backward(x, l, at);
    } catch (const std::invalid_argument& error) {
      result_.missing(text_of(at) + " cannot be judged: the oracle refuses it: " + error.what());
    }
  }

  bool comparable(const LayerRecord& own, const LayerRecord& plain, const LayerPlace& at) {
    bool same = own.x.data == plain.x.data && own.rows == plain.rows &&
                own.unit_roundoff == plain.unit_roundoff;
    for (const auto& [name, weight] : own.weights) {
      same = same && weight.data == plain.weights.at(name).data;
    }
    if (!same) result_.missing("the same input, weights and dtype in both runs of " + text_of(at));
    const bool lists = can_be_replayed(own) && can_be_replayed(plain);
    if (!lists) result_.missing("valid lists of blocks in " + text_of(at));
    return same && lists;
  }

  // True when something is out of its budget. Stages after a wrong one of the same branch follow from it.
  bool judge_forward(const Side& x, const Side& l, int layer) {
    std::set<std::string> branches;
    const LongestSums sums(model_, x.record.batch, x.record.length);
    for (const oracles::StageRow& stage : oracles::kStageTable) {
      const Tensor* const whole = stage_in(x.pass.result, stage.stage);
      if (whole == nullptr || oracles::is_of_choice(stage)) continue;
      const Tensor& wanted = *whole;
      const std::string tensor = name_of(stage);
      const std::string branch(stage.branch);
      const double limit =
          ceiling(sums.of(stage.stage), x.record.unit_roundoff, x.record.arithmetic.summed);
      Departure excess = measured(tensor,
                                  x.record.at(tensor),
                                  wanted,
                                  l.record.at(tensor),
                                  *stage_in(l.pass.result, stage.stage),
                                  kForwardFactor,
                                  limit * largest(wanted.data),
                                  x.record.unit_roundoff);
      if (excess.error <= 1.0) continue;
      const bool follows = branches.count("") > 0 || branches.count(branch) > 0 ||
                           (stage.stage == oracles::Stage::y && !branches.empty());
      if (follows) continue;
      branches.insert(branch);
      excess.code = "NUMERIC.FORWARD";
      excess.site.branch = branch;
      excess.site.op = stage.op;
      add(std::move(excess), layer);
    }
    return !branches.empty();
  }

  void judge_backward(const Side& x, const Side& l, const LayerPlace& at) {
    if (!x.record.dy || x.record.dy_elsewhere) {
      result_.missing(
          "gradients of " + text_of(at) +
          (x.record.dy ? ": the output's is not zero in rows that were not judged" : ""));
      return;
    }
    if (x.record.dy->data != l.record.dy->data) {
      result_.missing("the same gradient of the output in both runs of " + text_of(at));
      return;
    }
    double scale = largest(x.pass.gradients.x.data);
    for (const auto& [name, gradient] : x.pass.gradients.weights) {
      scale = std::max(scale, largest(gradient.data));
    }
    std::vector<Departure> wrong;
    const auto judge_one = [&](const std::string& name, const Tensor& own, const Tensor& plain) {
      const Tensor zero = oracles::zeros(own.shape);
      const Tensor& found = x.record.has(name) ? x.record.at(name) : zero;
      const Tensor& by_plain = l.record.has(name) ? l.record.at(name) : zero;
      const LongestSums sums(model_, x.record.batch, x.record.length);
      const double limit =
          ceiling(sums.gradient, x.record.unit_roundoff, x.record.arithmetic.summed);
      const double floor = smallest_scale_share(name) * scale;
      Departure excess = measured(name,
                                  found,
                                  own,
                                  by_plain,
                                  plain,
                                  kGradientFactor,
                                  limit * std::max(largest(own.data), floor),
                                  x.record.unit_roundoff,
                                  floor,
                                  cancels(name) ? x.record.arithmetic.summed * scale : 0.0);
      if (!(excess.error <= 1.0)) wrong.push_back(std::move(excess));
    };
    for (const auto& [name, gradient] : x.pass.gradients.weights) {
      judge_one("g.w." + name, gradient, l.pass.gradients.weights.at(name));
    }
    judge_one("dx", x.pass.gradients.x, l.pass.gradients.x);
    if (!wrong.empty()) add(backward(wrong), at.layer);
  }

  // A branch is named when only its own projections are wrong, beside what every branch feeds.
  [[nodiscard]] static Departure backward(const std::vector<Departure>& wrong) {
    Departure worst = wrong.front();
    std::set<std::string> branches;
    std::vector<std::string> params;
    for (const Departure& excess : wrong) {
      if (!(excess.error <= worst.error)) worst = excess;
      const std::string& tensor = excess.facts.at("tensor").get_ref<const std::string&>();
      if (tensor == "dx" || tensor == "g.w.W_Q.weight") continue;
      params.push_back(tensor.substr(4));
      branches.insert(branch_of(params.back()));
    }
    worst.code = "NUMERIC.GRADIENT";
    worst.site.phase = "backward";
    if (branches.size() == 1) worst.site.branch = *branches.begin();
    if (!worst.site.branch.empty()) worst.site.op = "attend_" + worst.site.branch;
    if (params.size() == 1) worst.site.param = short_name(params.front());
    return worst;
  }

  // Where the plain implementation is exact, a back end may still round: 4 units in the last place, of the largest entry and
  // on average. A mean square of n errors is itself only known to 1/sqrt(2n) of it, and two are compared: three deviations of
  // their ratio are 3/sqrt(n), which matters for a bias of a few elements and for nothing larger.
  // `cancelled` is a unit in the last place of the sums whose difference a gradient of queries or keys is (dS = P (dP - sum P
  // dP)): where all keys but one have no weight the plain implementation subtracts equal numbers, and a fused one, which takes
  // the second from the output, numbers of two roundings. Seen at 2.3 units; 4 as everywhere.
  Departure measured(const std::string& tensor,
                     const Tensor& found,
                     const Tensor& wanted,
                     const Tensor& plain,
                     const Tensor& wanted_of_plain,
                     double factor,
                     double at_most,
                     double u,
                     double floor = 0.0,
                     double cancelled = 0.0) {
    const Errors own = errors_of(found, wanted);
    const Errors reference = errors_of(plain, wanted_of_plain);
    const double budget = factor * reference.most +
                          kUlps * 2.0 * (u * std::max(largest(wanted.data), floor) + cancelled);
    const double limit = std::min(budget, std::max(at_most, 0.0));
    const double spread =
        1.0 + 3.0 / std::sqrt(static_cast<double>(std::max<std::size_t>(1, wanted.data.size())));
    const double mean_limit = kMeanFactor * spread * reference.mean +
                              kUlps * (u * std::max(mean_of(wanted), floor) + cancelled);
    const double share = own.most == 0.0 ? 0.0 : own.most / limit;
    const double mean_share = own.mean == 0.0 ? 0.0 : own.mean / mean_limit;
    const bool on_average = !(mean_share <= share);
    Departure excess("NUMERIC.FORWARD", "reference");
    excess.error = on_average ? mean_share : share;
    excess.site.detail["share_of_budget"] = Real(excess.error);
    excess.facts = {{"tensor", tensor},
                    {"found", Real(on_average ? own.mean : own.most)},
                    {"plain", Real(on_average ? reference.mean : reference.most)},
                    {"measure", on_average ? "on average (root mean square)" : "at most"}};
    const auto [at, is_new] = shares_.try_emplace(tensor, excess.error);
    if (!is_new) raise_to(at->second, excess.error);
    return excess;
  }

  void add(Departure excess, int layer) {
    excess.site.layers = {layer};
    excess.site.ranks = {0};
    excess.site.step = 1;
    departures_.add(std::move(excess));
  }

  const Evidence& evidence_;
  const nsa::ModelConfig& model_;
  Departures departures_;
  std::map<std::string, double> shares_;
  std::int64_t judged_ = 0;
  ResultBuilder result_;
};

}  // namespace

Check close_to_reference() {
  return {
      "close_to_reference",
      "a back end is as near to the oracle as the plain implementation in the same dtype, within "
      "a factor",
      {"NUMERIC.FORWARD", "NUMERIC.GRADIENT"},
      [](const Evidence& evidence) { return ReferenceComparison(evidence).judge(); }};
}

}  // namespace harness::checks
