// What goes wrong with a device: a host that asks it for a number in every layer, a kernel that reads where nothing is, memory
// that is used up.
#include <algorithm>
#include <cstdint>
#include <limits>

#ifdef NSA_CUDA
#include <ATen/cuda/Sleep.h>
#endif

#include "harness/faults/attention/attend_seam.h"
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"
#include "nsa/base/error.h"

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kSeams = {"attend_win", "attend_cmp", "attend_sel"};

// Calls `before` in front of an attend seam, with what it is given.
template <typename Before>
void in_front_of(nsa::AttentionSeams& seams, const std::string& seam, Before before) {
  const auto changed = [before](const auto& inner) {
    return [inner, before](const nsa::SeamContext& context, const Tensor& q, const auto&... rest) {
      before(q);
      return inner(context, q, rest...);
    };
  };
  wrap_attend(seams, seam, changed);
}

// In all layers unless some are named: one `.item()` that somebody left in a module is in every one of them.
void install_stats(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  const std::string seam = fault_form(context.request, kSeams);
  for (int layer = 0; layer < static_cast<int>(context.model->config().n_layers); ++layer) {
    const auto& named = context.request.layers;
    if (!named.empty() && std::find(named.begin(), named.end(), layer) == named.end()) continue;
    in_front_of(context.model->attention(layer)->seams(), seam, [&context](const Tensor& q) {
      if (!context.holds_now()) return;
      const auto largest = q.detach().abs().max().item<double>();
      if (largest >= 0.0) context.fired();
    });
  }
}

// An address that belongs to nobody; large enough that the kernel really goes there.
void read_nowhere(const Tensor& like) {
  constexpr std::uintptr_t kNowhere = 0x10;
  constexpr std::int64_t kNumbers = 1 << 16;
  auto* const nowhere = reinterpret_cast<void*>(kNowhere);  // NOLINT: that is the fault
  const Tensor from_nowhere = at::for_blob(nowhere, {kNumbers})
                                  .options(like.options().requires_grad(false))
                                  .target_device(like.device())
                                  .make_tensor();
  (void)from_nowhere.add(1);
}

void use_up(const Tensor& like) {
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 45;
  (void)torch::empty({kTooMuch}, like.options().requires_grad(false));
}

void install_device_fault(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  if (!context.model->parameters().front().is_cuda()) {
    throw nsa::Error("fault: found 'gpu_fault', wanted a scenario whose parallel.device is cuda");
  }
  const std::string form = fault_form(context.request, {"illegal_address", "memory"});
  const int seam = draw_index(context.request.seed, "seam", static_cast<int>(kSeams.size()));
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    in_front_of(seams, kSeams[static_cast<std::size_t>(seam)], [&context, form](const Tensor& q) {
      if (!context.is_step_now()) return;
      context.fired();
      form == "memory" ? use_up(q) : read_nowhere(q);
    });
  });
}

// More than any process can address: asking for it takes nothing from whoever runs beside.
void install_host_memory(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  const int seam = draw_index(context.request.seed, "seam", static_cast<int>(kSeams.size()));
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    in_front_of(seams, kSeams[static_cast<std::size_t>(seam)], [&context](const Tensor& /*q*/) {
      if (!context.is_step_now()) return;
      constexpr std::int64_t kTooMuch = std::int64_t{1} << 47;
      context.fired();
      (void)torch::empty({kTooMuch}, torch::kFloat);
    });
  });
}

// A kernel that waits for a tile that nobody loads: it runs, and does not end.
void wait_for_no_tile() {
#ifdef NSA_CUDA
  at::cuda::sleep(std::numeric_limits<std::int64_t>::max());
#endif
}

// Rows near the begin have fewer blocks than slots: their empty slots are what the kernel waits for.
void install_stalls(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  if (!context.model->parameters().front().is_cuda()) {
    throw nsa::Error(
        "fault: found 'empty_row_stalls', wanted a scenario whose parallel.device is cuda");
  }
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.attend_sel = [&context, inner = std::move(seams.attend_sel)](const nsa::SeamContext& seam,
                                                                       const Tensor& q,
                                                                       const Tensor& k,
                                                                       const Tensor& v,
                                                                       const Tensor& blocks_BGSn) {
      if (context.holds_now() && blocks_BGSn.lt(0).any().item<bool>()) {
        context.fired();
        wait_for_no_tile();
      }
      return inner(seam, q, k, v, blocks_BGSn);
    };
  });
}

}  // namespace

Faults faults_of_devices() {
  return {{"stats_sync",
           "a statistic is read to the host in every layer",
           {"layers", "rank", "step", "form"},
           install_stats,
           kSeams},
          {"gpu_fault",
           "a kernel of one rank reads an illegal address, or the device's memory is used up",
           {"layers", "rank", "step", "form"},
           install_device_fault,
           {"illegal_address", "memory"}},
          {"host_memory",
           "an operator of one rank asks for more memory than the machine has",
           {"layers", "rank", "step"},
           install_host_memory},
          {"empty_row_stalls",
           "a row with fewer blocks than slots makes a kernel of the selected branch wait for a "
           "tile that never comes",
           {"layers", "rank", "step"},
           install_stalls}};
}

}  // namespace harness
