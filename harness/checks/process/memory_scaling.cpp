// How memory and time grow over a sweep of sizes, and whether the sizes that were not fitted took what the smaller ones
// predict. Memory is what a step holds at its peak beyond what it holds before it; what it is made of is known: gradients,
// and activations that grow with tokens, with tokens times layers, and with query-key pairs times layers. A constant factor
// leaves every exponent and every prediction right: that each operator keeps what its implementation keeps when nothing was put
// in front of it, of the same numbers and at the same size, is compared to the byte.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/checks/attention/backend/chosen_route.h"
#include "harness/checks/departures.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/process/least_squares.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// No rule gives a tolerance for memory: 15 % is what a person planning a run can live with, and half of what one forgotten
// copy of the scores costs.
constexpr double kPredictionLimit = 0.15;
// Memory grows linearly with every size. The plain implementation alone keeps the probabilities of every query-key pair
// that it computed: its memory may grow with the square of the length. 0.1 is for what a fit of few points cannot tell.
constexpr double kMostLinear = 1.1;
constexpr double kMostOfPlain = 2.1;
// A peak is the largest of several moments of a step, and each is a sum of powers of the size up to the limit: between two sizes
// none of them rises faster than that. 0.1 is for what an allocator rounds up.
constexpr double kRoomAtTheEnd = 0.1;

struct SweepPoint {
  double seq_len = 0.0;
  double batch_size = 0.0;
  double n_layers = 0.0;
  double held = 0.0;
  double peak = 0.0;
  double step_ms = 0.0;

  [[nodiscard]] double transient() const { return peak - held; }
  [[nodiscard]] std::vector<double> features() const {
    const double tokens = batch_size * seq_len;
    return {tokens, tokens * n_layers, tokens * seq_len * n_layers, n_layers, 1.0};
  }
};

struct Axis {
  const char* name;
  double SweepPoint::*size;
};
constexpr Axis kAxes[] = {{"seq_len", &SweepPoint::seq_len},
                          {"batch_size", &SweepPoint::batch_size},
                          {"n_layers", &SweepPoint::n_layers}};

// Implementations of a branch that keep nothing for each query-key pair: of the selected one, n blocks for each query. `packed`
// keeps those that a query has: among the first ones their number grows with the position.
constexpr std::array<std::string_view, 6> kKeepNoPairs = {
    "sdpa", "fa2", "fa2_varlen", "cuda", "cuda_mma", "gather"};

bool keeps_no_pairs(const std::map<std::string, std::string>& route, const std::string& seam) {
  const auto asked = route.find(seam);
  return asked != route.end() &&
         std::find(kKeepNoPairs.begin(), kKeepNoPairs.end(), asked->second) != kKeepNoPairs.end();
}

// Of a whole layer, or of both branches that reach back to the first token.
bool is_linear_in_length(const std::map<std::string, std::string>& route) {
  const auto whole = route.find("attention");
  const bool in_parts = whole == route.end() || whole->second == "reference";
  return in_parts ? keeps_no_pairs(route, "attend_cmp") && keeps_no_pairs(route, "attend_sel")
                  : keeps_no_pairs(route, "attention");
}

struct Member {
  const char* metric;
  double SweepPoint::*value;
};
constexpr Member kMembers[] = {{"seq_len", &SweepPoint::seq_len},
                               {"batch_size", &SweepPoint::batch_size},
                               {"n_layers", &SweepPoint::n_layers},
                               {"held_bytes", &SweepPoint::held},
                               {"peak_bytes", &SweepPoint::peak},
                               {"step_ms", &SweepPoint::step_ms}};

constexpr const char* kKept = "kept_bytes.";
constexpr const char* kKeptPlain = "kept_bytes_plain.";

struct Kept {  // by one operator of one layer, at one size
  std::optional<double> found;
  std::optional<double> plain;
};

class Scaling {
 public:
  explicit Scaling(const Evidence& evidence)
      : evidence_(evidence),
        most_in_length_(is_linear_in_length(ChosenRoute(evidence, 0).route()) ? kMostLinear
                                                                              : kMostOfPlain) {}

  CheckResult judge() {
    read_points();
    if (points_.size() < 4) {
      return inconclusive("found " + std::to_string(points_.size()) + " sizes, wanted at least 4");
    }
    for (const Axis& axis : kAxes)
      judge_axis(axis);  // first: an exponent explains what was predicted wrongly
    judge_predictions();
    judge_kept();
    return result_.finish(words_);
  }

 private:
  void read_points() {
    std::map<std::int64_t, std::map<std::string, double>> samples;
    for (const auto& row : evidence_.samples) {
      if (row.process == 0) samples[row.row.step][row.row.metric] = row.row.value;
      if (row.process == 0 && row.row.metric == "memory_bytes") memory_ = row.row.value;
    }
    samples.erase(0);
    for (const auto& [number, of_point] : samples) read_kept(number, of_point);
    for (const auto& [number, of_point] : samples) {
      SweepPoint point;
      bool whole = of_point.count("peak_bytes") > 0;
      for (const Member& member : kMembers) {
        const auto at = of_point.find(member.metric);
        whole = whole && at != of_point.end() && at->second > 0.0;
        if (whole) point.*member.value = at->second;
      }
      if (whole && point.transient() > 0.0) {
        points_.push_back(point);
      } else if (of_point.count("rss_peak_bytes") == 0) {
        result_.missing("the memory of size " + std::to_string(number));
      }
    }
    std::sort(points_.begin(), points_.end(), [](const SweepPoint& a, const SweepPoint& b) {
      return a.transient() < b.transient();
    });
  }

  void read_kept(std::int64_t number, const std::map<std::string, double>& samples) {
    for (const auto& [metric, bytes] : samples) {
      for (const std::string prefix : {kKept, kKeptPlain}) {
        const std::size_t dot = metric.rfind('.');
        if (!metric.starts_with(prefix) || dot < prefix.size()) continue;
        const auto layer = nsa::parse_int(metric.substr(dot + 1));
        if (!layer) continue;
        const std::string op = metric.substr(prefix.size(), dot - prefix.size());
        Kept& kept = kept_[{op, static_cast<int>(*layer), number}];
        (prefix == kKept ? kept.found : kept.plain) = bytes;
      }
    }
    seq_len_[number] = samples.count("seq_len") > 0 ? samples.at("seq_len") : 0.0;
  }

  void judge_kept() {
    if (kept_.empty()) result_.missing("what each operator keeps");
    Departures excess;
    std::set<std::string> operators;
    for (const auto& [place, kept] : kept_) {
      const auto& [op, layer, number] = place;
      if (!kept.found || !kept.plain) {
        result_.missing("what " + op + " of layer " + std::to_string(layer) + " keeps at size " +
                        std::to_string(number));
        continue;
      }
      if (*kept.found <= *kept.plain) continue;
      operators.insert(op);
      Departure seen("MEM.BUDGET", "operator");
      seen.error = *kept.found - *kept.plain;
      seen.site.op = op;
      seen.site.layers = {layer};
      seen.site.branch = branch_of_seam(op);
      seen.site.phase = "forward";
      seen.site.detail = {{"seq_len", seq_len_[number]},
                          {"kept_bytes", *kept.found},
                          {"expected_bytes", *kept.plain}};
      excess.add(std::move(seen));
    }
    excess.tell(result_);
    result_.measured("operators_that_keep_more", static_cast<double>(operators.size()), 0.0);
    words_ += "; every operator keeps what its implementation does";
  }

  // The smaller half is fitted, the larger half predicted.
  void judge_predictions() {
    const std::size_t fitted = (points_.size() + 1) / 2;
    std::vector<std::vector<double>> features;
    std::vector<double> transient;
    for (std::size_t i = 0; i < fitted; ++i) {
      features.push_back(points_[i].features());
      transient.push_back(points_[i].transient());
    }
    const std::vector<double> shares = fit_shares(features, transient);
    double worst = 0.0;
    for (std::size_t i = fitted; i < points_.size(); ++i) {
      const double predicted = points_[i].held + predict(shares, points_[i]);
      const double error = std::abs(predicted - points_[i].peak) / points_[i].peak;
      result_.measured("prediction_error_S" + nsa::to_text(points_[i].seq_len) + "_B" +
                           nsa::to_text(points_[i].batch_size) + "_L" +
                           nsa::to_text(points_[i].n_layers),
                       error,
                       kPredictionLimit);
      if (!(error <= kPredictionLimit)) tell_prediction(points_[i], predicted);
      worst = std::max(worst, error);
    }
    words_ = "memory of " + std::to_string(points_.size() - fitted) + " sizes is what " +
             std::to_string(fitted) + " smaller ones predict (worst " + percent(worst) + ")" +
             words_;
    add_largest(shares);
  }

  [[nodiscard]] static double predict(const std::vector<double>& shares, const SweepPoint& point) {
    const std::vector<double> features = point.features();
    double sum = 0.0;
    for (std::size_t i = 0; i < shares.size(); ++i) sum += shares[i] * features[i];
    return sum;
  }

  // The longest sequence, a multiple of 64, that the machine's memory holds with the largest batch and depth of the sweep.
  void add_largest(const std::vector<double>& shares) {
    if (!(memory_ > 0.0)) return;
    SweepPoint point = points_.back();
    for (const SweepPoint& other : points_) {
      point.batch_size = std::max(point.batch_size, other.batch_size);
      point.n_layers = std::max(point.n_layers, other.n_layers);
      point.held = std::max(point.held, other.held);
    }
    double low = 0.0;
    double high = 1 << 24;
    while (high - low > 64.0) {
      point.seq_len = std::floor((low + high) / 128.0) * 64.0;
      (point.held + predict(shares, point) <= memory_ ? low : high) = point.seq_len;
      if (point.seq_len <= low && high - low <= 64.0) break;
    }
    result_.measured("largest_seq_len_that_fits", low);
    words_ += "; the longest sequence that fits is " + nsa::to_text(low) + " tokens at batch " +
              nsa::to_text(point.batch_size) + " and " + nsa::to_text(point.n_layers) + " layers";
  }

  [[nodiscard]] double most_along(const Axis& axis) const {
    return axis.size == &SweepPoint::seq_len ? most_in_length_ : kMostLinear;
  }

  void judge_axis(const Axis& axis) {
    std::vector<double> sizes;
    std::vector<double> bytes;
    std::vector<double> times;
    for (const SweepPoint& point : line_along(axis)) {
      sizes.push_back(point.*axis.size);
      bytes.push_back(point.transient());
      times.push_back(point.step_ms);
    }
    if (sizes.size() < 3) return;
    const PowerLaw memory = fit_power_law(sizes, bytes);
    const PowerLaw time = fit_power_law(sizes, times);
    const std::string name = axis.name;
    result_.measured("memory_exponent_" + name, memory.exponent, most_along(axis));
    result_.measured("memory_exponent_" + name + "_low", memory.low);
    result_.measured("memory_exponent_" + name + "_high", memory.high);
    result_.measured("time_exponent_" + name, time.exponent);
    result_.measured("time_exponent_" + name + "_low", time.low);
    result_.measured("time_exponent_" + name + "_high", time.high);
    words_ += "; along " + name + " memory grows with exponent " + interval(memory) +
              ", time with " + interval(time);
    if (!(memory.low <= most_along(axis))) return add_exponent(axis, memory, "axis");
    const std::optional<PowerLaw> end = at_the_end(sizes, bytes);
    if (end && !(end->low <= most_along(axis) + kRoomAtTheEnd)) add_exponent(axis, *end, "largest");
  }

  // How it grows from one of the three largest sizes to the next. What grows faster than the rest outgrows it there first, and
  // where the smaller sizes have their peak at another moment no one power fits all.
  [[nodiscard]] static std::optional<PowerLaw> at_the_end(const std::vector<double>& sizes,
                                                          const std::vector<double>& bytes) {
    std::map<double, double> by_size;
    for (std::size_t i = 0; i < sizes.size(); ++i) by_size[sizes[i]] = bytes[i];
    if (by_size.size() < 4) return std::nullopt;
    const auto largest = by_size.rbegin();
    const auto rise = [](const auto& small, const auto& large) {
      return std::log(large.second / small.second) / std::log(large.first / small.first);
    };
    const double last = rise(*std::next(largest), *largest);
    const double before = rise(*std::next(largest, 2), *std::next(largest));
    return PowerLaw{last, std::min(before, last), std::max(before, last)};
  }

  // The longest run of points that differ in this size alone; of several, the one with the largest other sizes.
  [[nodiscard]] std::vector<SweepPoint> line_along(const Axis& axis) const {
    std::map<std::vector<double>, std::vector<SweepPoint>> lines;
    for (const SweepPoint& point : points_) {
      std::vector<double> others;
      for (const Axis& other : kAxes) {
        if (other.size != axis.size) others.push_back(point.*other.size);
      }
      lines[others].push_back(point);
    }
    std::vector<SweepPoint> longest;
    for (const auto& [others, line] : lines) {
      if (line.size() >= longest.size()) longest = line;
    }
    return longest;
  }

  // Less than predicted is no memory too much: the smaller sizes were none to predict from.
  void tell_prediction(const SweepPoint& point, double predicted) {
    if (point.peak < predicted) {
      result_.missing("smaller sizes from which that of " + nsa::to_text(point.seq_len) +
                      " tokens at batch " + nsa::to_text(point.batch_size) +
                      " follows: they predict " + std::to_string(std::llround(predicted)) +
                      " bytes, and it took " + std::to_string(std::llround(point.peak)));
      return;
    }
    Finding finding = make_finding("MEM.BUDGET", "prediction");
    finding.site.phase = "backward";
    finding.site.detail["seq_len"] = point.seq_len;
    finding.site.detail["batch_size"] = point.batch_size;
    finding.site.detail["n_layers"] = point.n_layers;
    finding.site.detail["predicted_bytes"] = predicted;
    finding.site.detail["measured_bytes"] = point.peak;
    result_.found(finding);
  }

  void add_exponent(const Axis& axis, const PowerLaw& law, const char* variant) {
    Finding finding = make_finding("MEM.EXPONENT", variant);
    finding.site.op = axis.name;
    finding.site.detail["exponent"] = law.exponent;
    finding.site.detail["low"] = law.low;
    finding.facts = {{"high", law.high}, {"most", most_along(axis)}};
    result_.found(finding);
  }

  static std::string rounded(double value) {
    return nsa::to_text(std::round(value * 100.0) / 100.0);
  }
  static std::string percent(double share) {
    return nsa::to_text(std::round(share * 1000.0) / 10.0) + " %";
  }
  static std::string interval(const PowerLaw& law) {
    return rounded(law.exponent) + " (" + rounded(law.low) + " to " + rounded(law.high) + ")";
  }

  const Evidence& evidence_;
  double most_in_length_;
  ResultBuilder result_;
  std::vector<SweepPoint> points_;
  std::map<std::tuple<std::string, int, std::int64_t>, Kept> kept_;  // by operator, layer and size
  std::map<std::int64_t, double> seq_len_;
  double memory_ = 0.0;
  std::string words_;
};

}  // namespace

Check memory_scaling() {
  return {"memory_scaling",
          "memory grows as its parts do, and larger sizes take what smaller ones predict",
          {"MEM.EXPONENT", "MEM.BUDGET"},
          [](const Evidence& evidence) { return Scaling(evidence).judge(); }};
}

}  // namespace harness::checks
