// A second stream of the card that is not waited for. Seen: a buffer freed on one stream and given away while another stream still
// reads it (nobody called record_stream); a result read before the stream that makes it has ended. Where no stream is late, both
// give the right numbers: what the card does meanwhile takes longer than the copy.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"
#include "nsa/base/error.h"

#ifdef NSA_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kRaces = {"freed_early", "unawaited"};

#ifdef NSA_CUDA
constexpr std::int64_t kOtherWork = 4'000'000;  // cycles: 2 ms at 2 GHz

// `right`, copied by a stream of its own.
Tensor copied_aside(const Tensor& right, bool freed_early) {
  const torch::NoGradGuard no_grad;
  const c10::cuda::CUDAStream aside =
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, right.device().index());
  Tensor source = right.detach().clone();
  Tensor copy = at::zeros_like(source);
  at::cuda::CUDAEvent made;
  made.record();
  made.block(aside);
  at::cuda::CUDAEvent copied;
  {
    const c10::cuda::CUDAStreamGuard guard(aside);
    copy.copy_(source);
    copied.record(aside);
  }
  at::cuda::sleep(kOtherWork);
  if (freed_early) {
    const Tensor given_away = source;  // what the allocator hands out next is this memory
    given_away.fill_(-1.0);
    copied.block(c10::cuda::getCurrentCUDAStream());
  }
  return copy;
}
#else
Tensor copied_aside(const Tensor& right, bool /*freed_early*/) {
  return right;
}
#endif

void install_stream_race(FaultContext& context) {
  if (!context.model->parameters().front().is_cuda()) {
    throw nsa::Error(
        "fault: found 'stream_reuse', wanted a scenario whose parallel.device is cuda");
  }
  const bool freed_early = fault_form(context.request, kRaces) == "freed_early";
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context,
                  seams,
                  "win",
                  [freed_early, &context](const Attended& /*at*/, const Tensor& right_BHSD) {
                    if (!context.holds_now()) return right_BHSD;
                    context.fired();
                    const Tensor copy = copied_aside(right_BHSD, freed_early);
                    return right_BHSD + (copy - right_BHSD.detach());
                  });
  });
}

// A gradient that another stream makes. Whoever takes it for done when its hook is called reads what was there before.
void install_early_reduction(FaultContext& context) {
  if (!context.model->parameters().front().is_cuda()) {
    throw nsa::Error("fault: found 'hook_stream', wanted a scenario whose parallel.device is cuda");
  }
  if (!fault_on_rank(context.request, context.rank)) return;
  const auto layers =
      fault_layers(context.request, static_cast<int>(context.model->config().n_layers));
  for (const auto& item : context.model->named_parameters()) {
    for (const int layer : layers) {
      if (!item.key().starts_with("blocks." + std::to_string(layer) + ".")) continue;
      item.value().register_hook([&context](const Tensor& gradient) {
        if (!context.holds_now()) return gradient;
        context.fired();
        return copied_aside(gradient, /*freed_early=*/false);
      });
    }
  }
}

}  // namespace

Faults faults_of_streams() {
  return {{"stream_reuse",
           "a second stream of the card reads memory that was given away, or is not waited for",
           {"layers", "rank", "step", "form"},
           install_stream_race,
           kRaces},
          {"hook_stream",
           "gradients are reduced before the stream that makes them has ended",
           {"layers", "rank", "step"},
           install_early_reduction}};
}

}  // namespace harness
