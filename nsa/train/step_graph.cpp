#include "nsa/train/step_graph.h"

#include "nsa/base/error.h"
#include "nsa/seams/refused.h"

#ifdef NSA_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace nsa {
namespace {

constexpr const char* kSeamOfSteps = "step";

std::string asked_or(const std::map<std::string, std::string>& route,
                     const std::string& seam,
                     const char* otherwise) {
  const auto asked = route.find(seam);
  return asked == route.end() ? otherwise : asked->second;
}

}  // namespace

// What was captured and launched on a card, seam by seam; norm and mlp do nothing but launch.
void check_capturable(const std::map<std::string, std::string>& route) {
  const std::string attention = asked_or(route, "attention", "reference");
  if (attention != "cuda" && attention != "cuda_mma") {
    throw Refused("attention",
                  attention,
                  "steps of a CUDA graph: it was never captured, wanted cuda or cuda_mma");
  }
  const std::string optimizer = asked_or(route, "optimizer", "reference");
  if (optimizer != "fused") {
    throw Refused("optimizer", optimizer, "steps of a CUDA graph: it waits for the host");
  }
}

#ifdef NSA_CUDA

struct StepGraph::OnDevice {
  explicit OnDevice(const torch::Device& device)
      : stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  c10::cuda::CUDAStream stream;
  at::cuda::CUDAGraph graph;
};

StepGraph::StepGraph(const torch::Device& device) {
  if (!device.is_cuda()) {
    throw Refused(kSeamOfSteps, kGraphName, "device " + device.str() + ": only a card has graphs");
  }
  on_device_ = std::make_unique<OnDevice>(device);
  const c10::cuda::CUDAGuard guard(device);
  c10::cuda::device_synchronize();  // what was made so far was made on other streams
}

void StepGraph::on_stream(const std::function<void()>& work) {
  const c10::cuda::CUDAStreamGuard guard(on_device_->stream);
  work();
}

void StepGraph::capture(const std::function<void()>& step) {
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();  // the graph has a pool of its own
  on_device_->graph.capture_begin();
  try {
    step();
  } catch (...) {
    try {
      on_device_->graph.capture_end();
    } catch (const std::exception&) {  // NOLINT: the capture was spoilt by what is on its way
    }
    throw;
  }
  on_device_->graph.capture_end();
  captured_ = true;
}

void StepGraph::launch() {
  TORCH_CHECK(captured_, "a graph is captured before it is launched");
  on_device_->graph.replay();
}

#else

struct StepGraph::OnDevice {};

StepGraph::StepGraph(const torch::Device& device) {
  throw Refused(kSeamOfSteps, kGraphName, "device " + device.str() + ": this build has no CUDA");
}

void StepGraph::on_stream(const std::function<void()>& work) {
  work();
}

void StepGraph::capture(const std::function<void()>& /*step*/) {}

void StepGraph::launch() {}

#endif

StepGraph::~StepGraph() = default;

}  // namespace nsa
