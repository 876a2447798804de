// Wrong laws of the mlp of a block, forward and backward.
#include <array>
#include <cmath>
#include <numbers>

#include "oracles/model/linear_rows.h"
#include "oracles/model/mlp_rules.h"
#include "oracles/model/mlp_stage.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}
double normal_density(double z) {
  return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
}
double normal_share(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}
// The tanh form of gelu.
double tanh_part(double z) {
  return std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z));
}

constexpr double kQuick = 1.702;  // z sigmoid(1.702 z), another form of gelu

struct NamedActivation {
  const char* name;
  Activation activation;
};

const std::array<NamedActivation, 8>& activations() {
  static const std::array<NamedActivation, 8> kAll{{
      {"relu",
       {[](double z) { return z > 0 ? z : 0; }, [](double z) { return z > 0 ? 1.0 : 0.0; }}},
      {"gelu",
       {[](double z) { return z * normal_share(z); },
        [](double z) { return normal_share(z) + z * normal_density(z); }}},
      {"gelu by tanh",
       {[](double z) { return 0.5 * z * (1 + tanh_part(z)); },
        [](double z) {
          const double t = tanh_part(z);
          const double inner = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * z * z);
          return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * inner;
        }}},
      {"quick gelu",
       {[](double z) { return z * sigmoid(kQuick * z); },
        [](double z) {
          const double s = sigmoid(kQuick * z);
          return s + kQuick * z * s * (1 - s);
        }}},
      {"none", {[](double z) { return z; }, [](double) { return 1.0; }}},
      {"sigmoid", {sigmoid, [](double z) { return sigmoid(z) * (1 - sigmoid(z)); }}},
      {"tanh",
       {[](double z) { return std::tanh(z); },
        [](double z) { return 1 - std::tanh(z) * std::tanh(z); }}},
      {"silu twice",
       {[](double z) { return silu(silu(z)); },
        [](double z) { return silu_derivative(silu(z)) * silu_derivative(z); }}},
  }};
  return kAll;
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const NamedActivation& named : activations()) {
    names.emplace_back(named.name);
  }
  return names;
}

template <typename Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& named : all) {
    names.push_back(named.name);
  }
  return names;
}

Expected nothing(const Tensor& like) {
  return {zeros(like.shape), zeros(like.shape)};
}

// fc2 in the place of fc1 and the other way round; both have the shape for it, transposed.
bool is_exchangeable(const MlpWeights& w) {
  return w.fc1.rows == w.fc2.columns && w.fc1.columns == w.fc2.rows;
}

using Rule = WrongLaw<MlpInputs>;

std::vector<Rule> forward_of_activation() {
  return {{{"mlp_other_activation", "another function in the place of silu"},
           [](const MlpInputs& in, std::size_t choice) {
             return mlp_with(
                 in.x, in.weights, activations()[choice].activation, in.rounding, in.threads);
           },
           [](const MlpInputs&) { return activation_names(); }},
          {{"mlp_silu_last", "silu after fc2 in the place of between"},
           [](const MlpInputs& in, std::size_t) {
             const Expected y =
                 mlp_with(in.x, in.weights, activations()[4].activation, in.rounding, in.threads);
             return activated(y, silu_activation(), in.rounding);
           }},
          {{"mlp_hidden_cut", "the last hidden numbers are left out"},
           [](const MlpInputs& in, std::size_t choice) {
             const std::int64_t hidden = in.weights.fc1.rows;
             const std::int64_t cut = choice == 0 ? 1 : hidden >> (4 - choice);
             std::vector<double> kept(static_cast<std::size_t>(hidden), 1.0);
             std::fill(kept.end() - cut, kept.end(), 0.0);
             return mlp_with(in.x, in.weights, silu_activation(), in.rounding, in.threads, kept);
           },
           [](const MlpInputs& in) {
             const std::vector<std::string> names{"the last", "an eighth", "a quarter", "a half"};
             return in.weights.fc1.rows >= 16 ? names : std::vector<std::string>{};
           }},
          {{"mlp_hidden_in_bfloat16", "the hidden numbers are rounded to bfloat16"},
           [](const MlpInputs& in, std::size_t) -> std::optional<Expected> {
             if (in.rounding.stored >= unit_roundoff(Number::bf16)) {
               return std::nullopt;
             }
             Expected a = activated(
                 expected_linear({in.x, {}}, in.weights.fc1, false, in.rounding, in.threads),
                 silu_activation(),
                 in.rounding);
             for (double& value : a.value.data) {
               value = rounded(value, Number::bf16);
             }
             return expected_linear(a, in.weights.fc2, false, in.rounding, in.threads);
           }}};
}

std::vector<Rule> forward_of_weights() {
  return {
      {{"mlp_weights_exchanged", "fc2 in the place of fc1 and fc1 in that of fc2, transposed"},
       [](const MlpInputs& in, std::size_t) -> std::optional<Expected> {
         if (!is_exchangeable(in.weights)) {
           return std::nullopt;
         }
         const Expected hidden =
             expected_linear({in.x, {}}, in.weights.fc2, true, in.rounding, in.threads);
         return expected_linear(activated(hidden, silu_activation(), in.rounding),
                                in.weights.fc1,
                                true,
                                in.rounding,
                                in.threads);
       }},
      {{"mlp_of_other_input", "the mlp of another tensor"},
       [](const MlpInputs& in, std::size_t choice) {
         return mlp_with(
             in.other_inputs[choice].rows, in.weights, silu_activation(), in.rounding, in.threads);
       },
       [](const MlpInputs& in) { return names_of(in.other_inputs); }},
      {{"mlp_of_other_weights", "the weights of another block"},
       [](const MlpInputs& in, std::size_t choice) {
         return mlp_with(
             in.x, in.other_weights[choice], silu_activation(), in.rounding, in.threads);
       },
       [](const MlpInputs& in) { return names_of(in.other_weights); }},
      {{"mlp_zero", "the mlp gives zeros"},
       [](const MlpInputs& in, std::size_t) { return nothing(in.x); }},
      {{"mlp_skipped", "the mlp gives what it is given"},
       [](const MlpInputs& in, std::size_t) { return rounded_once(in.x, in.rounding.stored); }}};
}

const std::vector<Rule>& forward_rules() {
  static const std::vector<Rule> kRules = joined({forward_of_activation(), forward_of_weights()});
  return kRules;
}

Expected gradient_with(const MlpGradientInputs& in, const Activation& activation) {
  const MlpInputs& f = in.forward;
  return mlp_gradient_with(f.x, f.weights, activation, in.dy, f.rounding, f.threads);
}
using GradientRule = WrongLaw<MlpGradientInputs>;

const std::vector<GradientRule>& gradient_rules() {
  using In = const MlpGradientInputs&;
  static const std::vector<GradientRule> kRules{
      {{"mlp_gradient_other_activation", "the derivative of another function than silu"},
       [](In in, std::size_t choice) {
         return gradient_with(in, activations()[choice].activation);
       },
       [](In) { return activation_names(); }},
      {{"mlp_gradient_sigmoid_alone", "sigmoid(z) in the place of silu's derivative"},
       [](In in, std::size_t) {
         return gradient_with(in, {sigmoid, sigmoid});
       }},
      {{"mlp_gradient_at_result", "silu's derivative at silu(z), not at z"},
       [](In in, std::size_t) {
         return gradient_with(
             in,
             {[](double z) { return silu(z); }, [](double z) { return silu_derivative(silu(z)); }});
       }},
      {{"mlp_gradient_of_value", "silu(z) in the place of its derivative"},
       [](In in, std::size_t) {
         const auto value = [](double z) { return silu(z); };
         return gradient_with(in, {value, value});
       }},
      {{"mlp_gradient_of_other_input", "the gradient at another tensor"},
       [](In in, std::size_t choice) {
         MlpInputs other = in.forward;
         other.x = in.forward.other_inputs[choice].rows;
         return expected_mlp_gradient(other, in.dy);
       },
       [](In in) { return names_of(in.forward.other_inputs); }},
      {{"mlp_gradient_of_other_weights", "the gradient through the weights of another block"},
       [](In in, std::size_t choice) {
         MlpInputs other = in.forward;
         other.weights = in.forward.other_weights[choice];
         return expected_mlp_gradient(other, in.dy);
       },
       [](In in) { return names_of(in.forward.other_weights); }},
      {{"mlp_gradient_weights_exchanged", "fc2 and fc1 exchanged on the way back, transposed"},
       [](In in, std::size_t) -> std::optional<Expected> {
         if (!is_exchangeable(in.forward.weights)) {
           return std::nullopt;
         }
         const MlpInputs& f = in.forward;
         const Expected hidden =
             expected_linear({f.x, {}}, f.weights.fc1, false, f.rounding, f.threads);
         Expected du = expected_linear({in.dy, {}}, f.weights.fc1, false, f.rounding, f.threads);
         for (std::size_t i = 0; i < du.value.data.size(); ++i) {
           du.value.data[i] *= silu_derivative(hidden.value.data[i]);
         }
         return expected_linear(du, f.weights.fc2, false, f.rounding, f.threads);
       }},
      {{"mlp_gradient_zero", "no gradient passes the mlp"},
       [](In in, std::size_t) { return nothing(in.dy); }},
      {{"mlp_gradient_passed_on", "the gradient goes past the mlp"},
       [](In in, std::size_t) { return rounded_once(in.dy, in.forward.rounding.stored); }}};
  return kRules;
}

constexpr LastLaws kLast{{"mlp_factor", "the mlp's result times a factor"},
                         {"mlp_kept_narrow", "the mlp's result has fewer digits"}};
constexpr LastLaws kLastGradient{
    {"mlp_gradient_factor", "the gradient behind the mlp times a factor"},
    {"mlp_gradient_kept_narrow", "the gradient behind the mlp has fewer digits"}};

}  // namespace

const StageLibrary<MlpInputs>& mlp_laws() {
  static const StageLibrary<MlpInputs> kLibrary(forward_rules(), kLast, &expected_mlp);
  return kLibrary;
}

const StageLibrary<MlpGradientInputs>& mlp_gradient_laws() {
  static const StageLibrary<MlpGradientInputs> kLibrary(
      gradient_rules(), kLastGradient, [](const MlpGradientInputs& in) {
        return expected_mlp_gradient(in.forward, in.dy);
      });
  return kLibrary;
}

}  // namespace oracles
