#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>

#include "harness/checks/step/step_model.h"
#include "oracles/model/head_stage.h"
#include "oracles/model/stream_stage.h"

namespace harness::checks {
namespace {

using oracles::Expected;
using oracles::Tensor;

constexpr std::size_t kMostChoices = 64;  // of one law; more than any has

Tensor sum_of(const Tensor& a, const Tensor& b) {
  Tensor sum = a;
  for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += b.data[i];
  return sum;
}

Tensor scaled(Tensor tensor, double factor) {
  for (double& x : tensor.data) x *= factor;
  return tensor;
}

// Collects what the segment would give if one of its stages had one of its known mistakes.
class Candidates {
 public:
  explicit Candidates(const ModelRows& model) : model_(model) {}

  // `rest` carries a stage's result to the end of the segment.
  template <typename Inputs, typename Rest>
  void add(const std::string& op,
           const oracles::StageLibrary<Inputs>& library,
           const std::type_identity_t<Inputs>& inputs,
           Rest rest) {
    add(
        op,
        library.laws(),
        [&](auto law, auto choice) { return library.under(law, choice, inputs); },
        rest);
  }
  template <typename Under, typename Rest>
  void add(const std::string& op, std::span<const oracles::Law> laws, Under under, Rest rest) {
    for (const oracles::Law& law : laws) {
      const bool of_numbers = law.name.ends_with("_factor") || law.name.ends_with("_kept_narrow") ||
                              law.name == "head_bias";
      if (of_numbers) continue;
      for (std::size_t choice = 0; choice < kMostChoices; ++choice) {
        const std::optional<Expected> given = under(law.name, choice);
        if (!given) {
          if (choice > 0) break;
          continue;
        }
        add_one(op, law, rest(given->value));
      }
    }
  }
  void add_one(const std::string& op, const oracles::Law& law, const Tensor& end) {
    laws_.emplace_back(
        law,
        [end](const ModelRows& model, std::size_t) { return within_ceiling(end, model); },
        [op](const ModelRows&) { return std::vector{op}; });
  }

  // The stage that all fitting laws belong to; `otherwise` where they do not agree or none fits.
  Departure wrong(const Tensor& found,
                  const Expected& right,
                  int layer,
                  const std::string& otherwise) const {
    oracles::Naming naming = oracles::name_values(laws_, model_, found.data, right);
    std::set<std::string> ops;
    for (const oracles::LawFit& fit : naming.fitting) ops.insert(fit.detail);
    oracles::merge_forms(naming.fitting);
    if (ops.size() == 1) {
      for (oracles::LawFit& fit : naming.fitting) fit.detail.clear();
    }
    Departure wrong;
    wrong.site.op = ops.size() == 1 ? *ops.begin() : otherwise;
    if (layer >= 0) wrong.site.layers = {layer};
    wrong.laws = known_laws(naming);
    wrong.by_law = false;
    return wrong;
  }

 private:
  const ModelRows& model_;
  std::vector<oracles::WrongLaw<ModelRows>> laws_;
};

class Forward {
 public:
  Forward(const ModelRows& model, Stream& stream) : m_(model), s_(stream) {}

  std::optional<Departure> judge() {
    s_.entering.push_back(oracles::expected_embedding(embedding()).value);
    for (std::size_t l = 0; l < m_.layers.size(); ++l) {
      const Expected right = within_ceiling(norm(s_.entering[l], gain(l)), m_);
      if (!oracles::misfit_of(m_.layers[l].x.data, right).fits()) return name(l, right);
      s_.middle.push_back(sum_of(s_.entering[l], m_.dropped(l, 0, m_.layers[l].y)));
      s_.entering.push_back(sum_of(s_.middle[l], added(l, norm(s_.middle[l], gain2(l)))));
    }
    if (m_.logits.data.empty()) return std::nullopt;
    const Expected right = within_ceiling(head(norm(s_.entering.back(), "norm_f")), m_);
    if (oracles::misfit_of(m_.logits.data, right).fits()) return std::nullopt;
    return name(m_.layers.size(), right);
  }

 private:
  static std::string block(std::size_t l) { return "blocks." + std::to_string(l) + "."; }
  static std::string gain2(std::size_t l) { return block(l) + "norm2"; }
  // Of the norm that ends the segment before attention l; norm_f after the last one.
  [[nodiscard]] std::string gain(std::size_t l) const {
    return l < m_.layers.size() ? block(l) + "norm1" : "norm_f";
  }

  [[nodiscard]] oracles::EmbeddingInputs embedding() const {
    return {m_.tokens,
            m_.rows,
            m_.large.at("embed.weight"),
            m_.is_tied() ? oracles::Matrix{} : m_.head(),
            m_.rounding};
  }
  [[nodiscard]] Tensor norm(const Tensor& x, const std::string& gain) const {
    return oracles::expected_norm(x, m_.gain(gain), m_.rounding).value;
  }
  [[nodiscard]] oracles::MlpInputs mlp_inputs(std::size_t l, const Tensor& x) const {
    oracles::MlpInputs inputs;
    inputs.x = x;
    inputs.weights = m_.mlp(l);
    inputs.rounding = m_.rounding;
    return inputs;
  }
  [[nodiscard]] Tensor mlp(std::size_t l, const Tensor& x) const {
    return oracles::expected_mlp(mlp_inputs(l, x)).value;
  }
  // What the mlp adds to the stream.
  [[nodiscard]] Tensor added(std::size_t l, const Tensor& normed) const {
    return m_.dropped(l, 1, mlp(l, normed));
  }
  [[nodiscard]] oracles::HeadInputs head_inputs(const Tensor& x) const {
    oracles::HeadInputs inputs;
    inputs.x = x;
    inputs.head = m_.head();
    if (!m_.is_tied()) inputs.table = m_.large.at("embed.weight");
    inputs.rounding = m_.rounding;
    return inputs;
  }
  [[nodiscard]] Tensor head(const Tensor& x) const {
    return oracles::expected_logits(head_inputs(x)).value;
  }

  // From what enters the segment's last norm to its end.
  [[nodiscard]] Tensor end_of(std::size_t l, const Tensor& stream) const {
    const Tensor normed = norm(stream, gain(l));
    return l < m_.layers.size() ? normed : head(normed);
  }

  // The segment that ends in attention l, or in the logits: l = L.
  Departure name(std::size_t l, const Expected& right) {
    const bool last = l == m_.layers.size();
    Candidates all(m_);
    add_end(l, all);
    if (l == 0) {
      all.add("embed", oracles::embedding_laws(), embedding(), [&](const Tensor& stream) {
        return end_of(l, stream);
      });
      const double root = std::sqrt(static_cast<double>(s_.entering[0].shape.back()));
      all.add_one("embed", kRoot, end_of(l, scaled(s_.entering[0], root)));
    } else {
      add_half(l - 1, l, all);
    }
    const Tensor& found = last ? m_.logits : m_.layers[l].x;
    const std::string vague = l == 0 ? "embed_norm1" : last ? "norm2_to_logits" : "norm2_to_norm1";
    return all.wrong(found, right, l == 0 ? 0 : static_cast<int>(l) - 1, vague);
  }

  // The norm that ends a segment, and the head.
  void add_end(std::size_t l, Candidates& all) const {
    const bool last = l == m_.layers.size();
    oracles::NormInputs inputs{s_.entering[l], m_.gain(gain(l)), {}, {}, m_.rounding};
    if (l > 0) inputs.other_inputs = {{"what enters norm2", s_.middle[l - 1]}};
    all.add(
        last ? "norm_f" : "norm1", oracles::norm_stage_laws(), inputs, [&](const Tensor& normed) {
          return last ? head(normed) : normed;
        });
    if (!last) return;
    oracles::HeadInputs of_head = head_inputs(norm(s_.entering[l], "norm_f"));
    all.add(
        "lm_head",
        oracles::head_laws(),
        [&](auto law, auto choice) { return oracles::head_under(law, choice, of_head); },
        [&](const Tensor& logits) { return logits; });
  }

  // Both masks of block b: `from_middle` carries what leaves its first half to the end of the segment, `from_added` what its mlp
  // adds.
  template <typename FromMiddle, typename FromAdded>
  void add_dropout(std::size_t b,
                   const Tensor& branch,
                   Candidates& all,
                   FromMiddle from_middle,
                   FromAdded from_added) const {
    if (m_.factors.empty()) return;
    all.add("dropout",
            oracles::dropout_laws(),
            m_.dropping(b, 0, m_.layers[b].y),
            [&](const Tensor& x) { return from_middle(sum_of(s_.entering[b], x)); });
    all.add("dropout", oracles::dropout_laws(), m_.dropping(b, 1, branch), from_added);
  }

  // The second half of block b, before the end of segment l.
  void add_half(std::size_t b, std::size_t l, Candidates& all) const {
    const Tensor& enters = s_.entering[b];
    const Tensor& middle = s_.middle[b];
    const Tensor normed = norm(middle, gain2(b));
    const Tensor branch = mlp(b, normed);
    const Tensor attended = m_.dropped(b, 0, m_.layers[b].y);
    const auto from_normed = [&](const Tensor& x) {
      return end_of(l, sum_of(middle, added(b, x)));
    };
    const auto from_middle = [&](const Tensor& sum) {
      return end_of(l, sum_of(sum, added(b, norm(sum, gain2(b)))));
    };
    add_dropout(
        b, branch, all, from_middle, [&](const Tensor& x) { return end_of(l, sum_of(middle, x)); });
    const std::vector<oracles::NamedRows> streams = {{"what enters the block", enters},
                                                     {"the result of norm1", m_.layers[b].x},
                                                     {"the attention's result", m_.layers[b].y}};
    const oracles::ResidualInputs first{enters, attended, {}, {streams[1]}, m_.rounding};
    all.add("residual", oracles::residual_laws(), first, from_middle);
    const oracles::ResidualInputs second{middle,
                                         m_.dropped(b, 1, branch),
                                         {},
                                         {{"the result of norm2", normed}, streams[0]},
                                         m_.rounding};
    all.add("residual", oracles::residual_laws(), second, [&](const Tensor& sum) {
      return end_of(l, sum);
    });
    const oracles::NormInputs of_norm{
        middle, m_.gain(gain2(b)), streams, {{"norm1", m_.gain(block(b) + "norm1")}}, m_.rounding};
    all.add("norm2", oracles::norm_stage_laws(), of_norm, from_normed);
    oracles::MlpInputs of_mlp = mlp_inputs(b, normed);
    of_mlp.other_inputs = {{"what enters norm2", middle}, streams[0], streams[1]};
    for (std::size_t other = 0; other < m_.layers.size(); ++other) {
      if (other != b) of_mlp.other_weights.push_back(m_.mlp(other));
    }
    all.add("mlp", oracles::mlp_laws(), of_mlp, [&](const Tensor& result) {
      return end_of(l, sum_of(middle, m_.dropped(b, 1, result)));
    });
    if (b == 0) {
      // The first norm does not show a factor of the embedding, the stream after it does.
      const double root = std::sqrt(static_cast<double>(enters.shape.back()));
      all.add_one("embed", kRoot, from_middle(sum_of(scaled(enters, root), attended)));
    }
    for (const double factor : {0.5, 2.0}) {
      all.add_one(
          "mlp", kFactor, end_of(l, sum_of(middle, m_.dropped(b, 1, scaled(branch, factor)))));
    }
  }

  static constexpr oracles::Law kRoot{"embed_times_root",
                                      "the embedding times the root of the width"};
  static constexpr oracles::Law kFactor{"mlp_factor", "the mlp's result times a factor"};

  const ModelRows& m_;
  Stream& s_;
};

class Backward {
 public:
  Backward(const ModelRows& model, const Stream& stream) : m_(model), s_(stream) {}

  std::optional<Departure> judge() {
    const std::size_t layers = m_.layers.size();
    Tensor dstream = head_gradient();
    dstream = oracles::expected_norm_gradient(
                  s_.entering[layers], m_.gain("norm_f"), dstream, m_.rounding)
                  .value;
    for (std::size_t l = layers; l-- > 0;) {
      const ModelRows::Border& at = m_.layers[l];
      if (at.dy.data.empty() || at.dx.data.empty()) return std::nullopt;
      const Tensor dmiddle = sum_of(dstream, through_half(l, dstream));
      const Expected right = behind_dropout(l, dmiddle);
      if (!oracles::misfit_of(at.dy.data, right).fits()) return name(l, dstream, right);
      dstream =
          sum_of(m_.factors.empty() ? at.dy : dmiddle,  // where it was dropped, nobody recorded it
                 oracles::expected_norm_gradient(
                     s_.entering[l], m_.gain(block(l) + "norm1"), at.dx, m_.rounding)
                     .value);
    }
    return std::nullopt;
  }

 private:
  static std::string block(std::size_t l) { return "blocks." + std::to_string(l) + "."; }

  // The roundings are on the stream: what is dropped is zero to the last bit, and what is kept is as far off as the stream is.
  [[nodiscard]] Expected behind_dropout(std::size_t l, const Tensor& dmiddle) const {
    Expected right = within_ceiling(dmiddle, m_);
    right.value = m_.dropped(l, 0, std::move(right.value));
    right.bound = m_.dropped(l, 0, std::move(right.bound));
    return right;
  }

  // dlogits W [R,E]
  [[nodiscard]] Tensor head_gradient() const {
    const Tensor head = oracles::tensor_of(m_.head());
    const std::int64_t rows = m_.dlogits.shape[0];
    const std::int64_t words = m_.dlogits.shape[1];
    const std::int64_t width = head.shape[1];
    Tensor result = oracles::zeros({rows, width});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t v = 0; v < words; ++v) {
        const double d = m_.dlogits.data[static_cast<std::size_t>(r * words + v)];
        for (std::int64_t e = 0; e < width; ++e) {
          result.data[static_cast<std::size_t>(r * width + e)] +=
              d * head.data[static_cast<std::size_t>(v * width + e)];
        }
      }
    }
    return result;
  }

  [[nodiscard]] oracles::MlpInputs mlp_inputs(std::size_t l) const {
    oracles::MlpInputs inputs;
    inputs.x = oracles::expected_norm(s_.middle[l], m_.gain(block(l) + "norm2"), m_.rounding).value;
    inputs.weights = m_.mlp(l);
    inputs.rounding = m_.rounding;
    return inputs;
  }
  [[nodiscard]] Tensor through_norm2(std::size_t l, const Tensor& dnormed) const {
    return oracles::expected_norm_gradient(
               s_.middle[l], m_.gain(block(l) + "norm2"), dnormed, m_.rounding)
        .value;
  }
  // What the second half of block l adds to the gradient that goes past it.
  [[nodiscard]] Tensor through_half(std::size_t l, const Tensor& dstream) const {
    const Tensor dmlp = m_.dropped(l, 1, dstream);
    return through_norm2(l, oracles::expected_mlp_gradient(mlp_inputs(l), dmlp).value);
  }

  Departure name(std::size_t l, const Tensor& dstream, const Expected& right) const {
    Candidates all(m_);
    const oracles::MlpInputs inputs = mlp_inputs(l);
    const Tensor dmlp = m_.dropped(l, 1, dstream);
    const auto to_attention = [&](const Tensor& dmiddle) { return m_.dropped(l, 0, dmiddle); };
    const auto past_norm2 = [&](const Tensor& dx) { return to_attention(sum_of(dstream, dx)); };
    const auto past_mlp = [&](const Tensor& dx) { return past_norm2(through_norm2(l, dx)); };
    all.add("mlp", oracles::mlp_gradient_laws(), {inputs, dmlp}, past_mlp);
    const Tensor dnormed = oracles::expected_mlp_gradient(inputs, dmlp).value;
    const oracles::NormInputs of_norm{
        s_.middle[l], m_.gain(block(l) + "norm2"), {}, {}, m_.rounding};
    all.add("norm2", oracles::norm_gradient_laws(), {of_norm, dnormed}, past_norm2);
    const oracles::ResidualInputs sum{dstream, through_half(l, dstream), {}, {}, m_.rounding};
    all.add("residual", oracles::residual_laws(), sum, to_attention);
    if (!m_.factors.empty()) {
      all.add("dropout", oracles::dropout_laws(), m_.dropping(l, 1, dstream), [&](const Tensor& d) {
        return past_mlp(oracles::expected_mlp_gradient(inputs, d).value);
      });
      const Tensor dmiddle = sum_of(dstream, through_half(l, dstream));
      all.add("dropout", oracles::dropout_laws(), m_.dropping(l, 0, dmiddle), [](const Tensor& d) {
        return d;
      });
    }
    const std::string vague = l + 1 == m_.layers.size() ? "logits_to_norm2" : "norm1_to_norm2";
    return all.wrong(m_.layers[l].dy, right, static_cast<int>(l), vague);
  }

  const ModelRows& m_;
  const Stream& s_;
};

}  // namespace

std::optional<Departure> judge_forward(const ModelRows& model, Stream& stream) {
  return Forward(model, stream).judge();
}

std::optional<Departure> judge_backward(const ModelRows& model, const Stream& stream) {
  return Backward(model, stream).judge();
}

}  // namespace harness::checks
