// Offsets into an operand that are computed with too few bits, as kernels do that count elements in 32 bit integers: from a power
// of two on, numbers are read from the beginning again. Where that happens at 2^31 a test would need gigabytes: here it is the
// largest power of two that the operand reaches over, so that some of its last vectors are read elsewhere and all others are right.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

constexpr const char* kQueries = "queries";
constexpr const char* kKeys = "keys";

// As if x lay in memory without a gap.
Tensor read_again(const Tensor& x) {
  std::int64_t reach = 1;
  while (2 * reach < x.numel()) reach *= 2;
  const Tensor offsets =
      torch::arange(x.numel(), torch::dtype(torch::kLong).device(x.device())).remainder(reach);
  return x.reshape({-1}).index_select(0, offsets).view(x.sizes());
}

Attended with_short_offsets(const Attended& at, bool queries) {
  Attended read = at;
  if (queries) {
    read.q_BHSD = read_again(at.q_BHSD);
  } else {
    read.k_BGKD = read_again(at.k_BGKD);
    read.v_BGKD = read_again(at.v_BGKD);
  }
  return read;
}

void install(FaultContext& context) {
  const bool queries = fault_form(context.request, {kQueries, kKeys}) == kQueries;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(
        context, seams, "sel", [queries, &context](const Attended& at, const Tensor& right_BHSD) {
          const Tensor wrong_BHSD = attend_over(with_short_offsets(at, queries), right_keys(at));
          const Tensor differs_BHS1 = wrong_BHSD.sub(right_BHSD).abs().amax(-1, true).gt(1e-3);
          context.fired(differs_BHS1.sum().item<std::int64_t>());
          return torch::where(differs_BHS1, wrong_BHSD, right_BHSD);
        });
  });
}

}  // namespace

Faults faults_of_offsets() {
  return {{"index_int32",
           "offsets of the selected branch's operands begin again at a power of two, as those of "
           "32 bits do at 2^31",
           {"layers", "rank", "step", "form"},
           install,
           {kQueries, kKeys}}};
}

}  // namespace harness
