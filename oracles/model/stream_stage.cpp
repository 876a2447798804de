#include "oracles/model/stream_stage.h"

#include <cmath>
#include <string>

namespace oracles {
namespace {

Expected nothing(const Shape& shape) {
  return {zeros(shape), zeros(shape)};
}

// a stream + b branch, or another tensor in the place of the stream.
Expected weighted(const ResidualInputs& in, const Tensor& stream, double a, double b) {
  require_shape(stream, in.branch.shape, "stream");
  require_shape(in.branch, in.branch.shape, "branch");
  if (!in.branch_bound.data.empty()) {
    require_shape(in.branch_bound, in.branch.shape, "bound of the branch");
  }
  Tensor sum = stream;
  for (std::size_t i = 0; i < sum.data.size(); ++i) {
    sum.data[i] = a * sum.data[i] + b * in.branch.data[i];
  }
  Expected e = rounded_once(std::move(sum), in.rounding.stored);
  for (std::size_t i = 0; i < e.bound.data.size(); ++i) {
    const double branch = in.branch_bound.data.empty() ? 0 : in.branch_bound.data[i];
    e.bound.data[i] += std::abs(b) * branch + in.rounding.flushed;
  }
  return e;
}

using Rule = WrongLaw<ResidualInputs>;

Rule sum_of(std::string_view name, std::string_view about, double a, double b) {
  return {{name, about},
          [a, b](const ResidualInputs& in, std::size_t) { return weighted(in, in.stream, a, b); }};
}

std::vector<std::string> other_names(const ResidualInputs& in) {
  std::vector<std::string> names;
  for (const NamedRows& other : in.others) {
    names.push_back(other.name);
  }
  return names;
}

const std::vector<Rule>& residual_rules() {
  static const std::vector<Rule> kRules{
      sum_of("residual_branch_missing", "the branch is not added", 1, 0),
      sum_of("residual_stream_missing", "the branch alone: nothing goes past it", 0, 1),
      sum_of("residual_branch_twice", "the branch is added twice", 1, 2),
      sum_of("residual_stream_twice", "the stream is added twice", 2, 1),
      sum_of("residual_both_twice", "the sum is doubled", 2, 2),
      sum_of("residual_branch_subtracted", "the branch is subtracted", 1, -1),
      sum_of("residual_branch_halved", "half of the branch is added", 1, 0.5),
      sum_of("residual_mean", "the mean in the place of the sum", 0.5, 0.5),
      sum_of("residual_over_root_two",
             "the sum divided by sqrt(2)",
             1 / std::sqrt(2.0),
             1 / std::sqrt(2.0)),
      {{"residual_of_other_stream", "another tensor in the place of the stream"},
       [](const ResidualInputs& in, std::size_t choice) {
         return weighted(in, in.others[choice].rows, 1, 1);
       },
       other_names},
      {{"residual_other_alone", "another tensor in the place of the sum"},
       [](const ResidualInputs& in, std::size_t choice) {
         return weighted(in, in.others[choice].rows, 1, 0);
       },
       other_names},
      {{"residual_zero", "zeros"},
       [](const ResidualInputs& in, std::size_t) { return nothing(in.stream.shape); }}};
  return kRules;
}

constexpr LastLaws kLast{{"residual_factor", "the sum times a factor"},
                         {"residual_kept_narrow", "the sum has fewer digits"}};

}  // namespace

Expected expected_residual(const ResidualInputs& in) {
  return weighted(in, in.stream, 1, 1);
}

const StageLibrary<ResidualInputs>& residual_laws() {
  static const StageLibrary<ResidualInputs> kLibrary(residual_rules(), kLast, &expected_residual);
  return kLibrary;
}

}  // namespace oracles
