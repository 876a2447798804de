// Wrong rotations. Seen: queries rotated before they were split into heads; keys of the selected branch rotated when they were
// made and again when they were read; the scale of the positions known to the attention and not to phi; tables of cosines,
// or pooled keys, that an autocast had rounded to bf16.
#include <cmath>
#include <memory>

#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

struct Angles {
  double base = 10000.0;
  double factor = 1.0;  // angle of pair c at position t: t * factor * base^(-2c / width)
  torch::ScalarType table = torch::kDouble;  // what cosines and sines are rounded to
};

// Interleaved pairs of x [...,S,D].
Tensor rotated(const Tensor& x, std::int64_t first, const Angles& angles) {
  const std::int64_t width = x.size(-1);
  const auto options = torch::dtype(torch::kDouble).device(x.device());
  const Tensor exponent_D = torch::arange(width / 2, options) * (-2.0 / static_cast<double>(width));
  const Tensor frequency_D = torch::pow(angles.base, exponent_D);
  const Tensor t_S1 = torch::arange(first, first + x.size(-2), options).unsqueeze(1);
  const Tensor angle_SD = t_S1 * angles.factor * frequency_D;
  const Tensor cos_SD = angle_SD.cos().to(angles.table).to(x.scalar_type());
  const Tensor sin_SD = angle_SD.sin().to(angles.table).to(x.scalar_type());
  const Tensor pairs = x.unflatten(-1, {width / 2, 2});
  const Tensor even = pairs.select(-1, 0);
  const Tensor odd = pairs.select(-1, 1);
  return torch::stack({even * cos_SD - odd * sin_SD, even * sin_SD + odd * cos_SD}, -1).flatten(-2);
}

Angles angles_of(const nsa::SeamContext& seam) {
  return {seam.config.rope_base, 1.0 / seam.config.rope_scale};
}

// ---- of one projection ---------------------------------------------------------------------------

struct Rotation {
  const nsa::SeamContext& seam;
  const Tensor& x_BHSD;
  std::int64_t first;
  const Tensor& right_BHSD;
};

using RotationLaw = Tensor (*)(const Rotation&);

Tensor with_rotation(FaultContext& context, const Rotation& at, RotationLaw law) {
  const Tensor wrong_BHSD = law(at);
  const Tensor differs_BGS = differing_rows(wrong_BHSD, at.right_BHSD, at.seam.config.n_kv_groups);
  return replaced(strike(context, at.seam, differs_BGS), wrong_BHSD, at.right_BHSD);
}

// The seam `rope` is not told what it rotates: the projection before it was.
template <nsa::Projection kWhich, RotationLaw kLaw>
void install_of(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    const auto last = std::make_shared<nsa::Projection>();
    seams.project = [inner = seams.project, last](const nsa::SeamContext& seam,
                                                  const Tensor& x_BSE,
                                                  const Tensor& weight,
                                                  nsa::Projection which) {
      *last = which;
      return inner(seam, x_BSE, weight, which);
    };
    seams.rope = [inner = seams.rope, last, &context](
                     const nsa::SeamContext& seam, const Tensor& x_BHSD, std::int64_t first) {
      const Tensor right_BHSD = inner(seam, x_BHSD, first);
      if (*last != kWhich || !context.holds_now()) return right_BHSD;
      return with_rotation(context, {seam, x_BHSD, first, right_BHSD}, kLaw);
    };
  });
}

Tensor over_flat_heads(const Rotation& at) {
  const Tensor flat_BSD = at.x_BHSD.transpose(1, 2).flatten(2);
  return rotated(flat_BSD, at.first, angles_of(at.seam))
      .unflatten(-1, {at.x_BHSD.size(1), at.x_BHSD.size(3)})
      .transpose(1, 2);
}

Tensor twice(const Rotation& at) {
  return rotated(at.right_BHSD, at.first, angles_of(at.seam));
}

// ---- of what is pooled ---------------------------------------------------------------------------

// Rows are compressed tokens here.
Tensor with_pooled(FaultContext& context,
                   const nsa::SeamContext& seam,
                   const Tensor& wrong_BGCD,
                   const Tensor& right_BGCD) {
  const Tensor differs_BGC = differing_rows(wrong_BGCD, right_BGCD, right_BGCD.size(1));
  return replaced(strike(context, seam, differs_BGC), wrong_BGCD, right_BGCD);
}

// The keys come rotated by t / rope_scale; what is missing to t is added.
void install_scale(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.compress = [inner = seams.compress, &context](const nsa::SeamContext& seam,
                                                        const Tensor& raw_BGSD,
                                                        nsa::Pooled what,
                                                        const nsa::PhiWeights& weights) {
      const Tensor right_BGCD = inner(seam, raw_BGSD, what, weights);
      if (what != nsa::Pooled::key || seam.config.rope_scale == 1.0 || !context.holds_now()) {
        return right_BGCD;
      }
      const Angles missing = {seam.config.rope_base, 1.0 - 1.0 / seam.config.rope_scale};
      const Tensor unscaled_BGSD = rotated(raw_BGSD, 0, missing);
      return with_pooled(
          context, seam, inner(unseen(seam), unscaled_BGSD, what, weights), right_BGCD);
    };
  });
}

// ---- dtype_promoted ------------------------------------------------------------------------------

void round_tables(FaultContext& context, nsa::AttentionSeams& seams) {
  seams.rope = [inner = seams.rope, &context](
                   const nsa::SeamContext& seam, const Tensor& x_BHSD, std::int64_t first) {
    const Tensor right_BHSD = inner(seam, x_BHSD, first);
    if (!context.holds_now()) return right_BHSD;
    return with_rotation(context, {seam, x_BHSD, first, right_BHSD}, [](const Rotation& at) {
      Angles angles = angles_of(at.seam);
      angles.table = torch::kBFloat16;
      return rotated(at.x_BHSD, at.first, angles);
    });
  };
}

// Of a case in bf16 this changes nothing, and the fault does not fire: pooled keys and values are stored in bf16 there.
void round_pooled(FaultContext& context, nsa::AttentionSeams& seams) {
  seams.compress = [inner = seams.compress, &context](const nsa::SeamContext& seam,
                                                      const Tensor& raw_BGSD,
                                                      nsa::Pooled what,
                                                      const nsa::PhiWeights& weights) {
    const Tensor right_BGCD = inner(seam, raw_BGSD, what, weights);
    if (!context.holds_now()) return right_BGCD;
    const Tensor rounded_BGCD = right_BGCD.to(torch::kBFloat16).to(right_BGCD.scalar_type());
    return with_pooled(context, seam, rounded_BGCD, right_BGCD);
  };
}

void install_rounded(FaultContext& context) {
  const bool tables = fault_form(context.request, {"rope", "pooling"}) == "rope";
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    tables ? round_tables(context, seams) : round_pooled(context, seams);
  });
}

}  // namespace

Faults faults_of_rotations() {
  return {{"flat_q_rope",
           "queries are rotated over the flattened heads",
           kRowsOfLayers,
           install_of<nsa::Projection::q, over_flat_heads>},
          {"double_rope",
           "keys of the selected branch are rotated twice",
           kRowsOfLayers,
           install_of<nsa::Projection::k_sel, twice>},
          {"rope_scale_ignored",
           "phi pools keys that are rotated without the scale of the positions",
           kRowsOfLayers,
           install_scale},
          {"dtype_promoted",
           "cosines and sines, or pooled keys and values, are rounded to bf16",
           {"layers", "rank", "step", "strength", "form"},
           install_rounded,
           {"rope", "pooling"}}};
}

}  // namespace harness
