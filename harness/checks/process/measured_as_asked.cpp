// Was every point of a sweep measured on what was asked for? As many tokens entered the model as the point has, and between its
// two steps memory held the state of training and nothing else. Exponents and predictions of other sizes, or of a step that
// keeps more, would be right and say nothing of what was asked.
#include <cmath>

#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/series.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// What else lives between two steps: tokens, positions, the loss. A share of the state and some bytes a token.
constexpr double kElseShare = 0.02;
constexpr double kElseBytesPerToken = 64.0;
constexpr double kElseBytes = 65536.0;

std::vector<std::int64_t> or_one(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() ? std::vector<std::int64_t>{value} : list;
}

// Bytes of a parameter with all that the optimiser keeps of it: two moments, and a float32 master of a narrow one.
double state_bytes(nsa::Precision precision) {
  switch (precision) {
    case nsa::Precision::fp64: return 3 * 8;
    case nsa::Precision::bf16:
    case nsa::Precision::fp16: return 2 + 3 * 4;
    case nsa::Precision::bf16_pure:
    case nsa::Precision::fp16_pure: return 3 * 2;
    default: return 3 * 4;
  }
}

struct AskedPoint {         // of one point
  std::int64_t number = 0;  // from 1
  nsa::ModelConfig model;
  std::int64_t tokens = 0;
};

class SweepMeasured {
 public:
  explicit SweepMeasured(const Evidence& evidence)
      : evidence_(evidence),
        tokens_(series_of(evidence, "tokens")),
        held_(series_of(evidence, "held_bytes")) {}

  CheckResult judge() {
    const Scenario& scenario = evidence_.the_case.scenario;
    AskedPoint asked;
    for (const auto layers : or_one(scenario.sweep.n_layers, scenario.model.n_layers)) {
      for (const auto batch : or_one(scenario.sweep.batch_size, scenario.training.batch_size)) {
        for (const auto length : or_one(scenario.sweep.seq_len, scenario.training.seq_len)) {
          ++asked.number;
          asked.model = scenario.model;
          asked.model.n_layers = layers;
          asked.tokens = batch * length;
          judge_point(asked);
        }
      }
    }
    return result_.finish("in " + counted(asked.number, "point") +
                          " as many tokens entered the model as were asked for, and between two "
                          "steps memory held the state of training alone");
  }

 private:
  void judge_point(const AskedPoint& asked) {
    const Sample* tokens = tokens_.find({0, asked.number});
    const Sample* held = held_.find({0, asked.number});
    if (tokens == nullptr || held == nullptr) {
      result_.missing("the tokens and the memory of point " + std::to_string(asked.number) +
                      ended_early(evidence_, 0));
      return;
    }
    if (tokens->value != static_cast<double>(asked.tokens)) {
      tell("DATA.WRONG", asked, tokens->value, static_cast<double>(asked.tokens));
    }
    const double state = static_cast<double>(asked.model.parameter_count()) *
                         state_bytes(evidence_.the_case.scenario.training.precision);
    const double most = state * (1 + kElseShare) + kElseBytes +
                        kElseBytesPerToken * static_cast<double>(asked.tokens);
    if (!(held->value <= most)) tell("MEM.BUDGET", asked, held->value, state);
  }

  // The first point of each code is told: the others follow from the same place.
  void tell(const char* code, const AskedPoint& asked, double found, double wanted) {
    if (!told_.insert(code).second) return;
    Finding finding = make_finding(code, "point");
    finding.site.ranks = {0};
    finding.site.op = code == std::string_view("DATA.WRONG") ? "data" : "zero_grad";
    finding.site.detail["point"] = asked.number;
    finding.site.detail["found"] = found;
    finding.site.detail["wanted"] = wanted;
    result_.found(std::move(finding));
  }

  const Evidence& evidence_;
  Series tokens_;
  Series held_;
  std::set<std::string> told_;
  ResultBuilder result_;
};

}  // namespace

Check measured_as_asked() {
  return {
      "measured_as_asked",
      "every point of a sweep was measured on the tokens that were asked for, with the state of "
      "training alone in memory",
      {"DATA.WRONG", "MEM.BUDGET"},
      [](const Evidence& evidence) { return SweepMeasured(evidence).judge(); }};
}

}  // namespace harness::checks
