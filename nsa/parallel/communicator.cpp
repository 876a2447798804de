#include "nsa/parallel/communicator.h"

#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "nsa/base/error.h"

namespace nsa {
namespace {

c10::intrusive_ptr<c10d::Store> make_store(const CommunicatorOptions& options) {
  c10d::TCPStoreOptions store;
  store.port = static_cast<std::uint16_t>(options.port);
  store.isServer = options.rank == 0;
  store.numWorkers = static_cast<std::size_t>(options.world);
  store.timeout = options.timeout;
  if (options.rank == 0) {
    // Without a socket of its own the store would listen on every interface.
    store.masterListenFd = options.listen_fd;
  }
  return c10::make_intrusive<c10d::TCPStore>(options.store, store);
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const CommunicatorOptions& options,
                                            const c10::intrusive_ptr<c10d::Store>& store) {
  auto gloo = c10d::ProcessGroupGloo::Options::create();
  // Gloo's default device follows the host name, which may be another interface.
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  gloo->timeout = options.timeout;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world, gloo);
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const CommunicatorOptions& options,
                                            const c10::intrusive_ptr<c10d::Store>& store) {
#ifdef USE_C10D_NCCL
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = options.timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.world, nccl);
#else
  (void)options;
  (void)store;
  throw Error("backend nccl: this worker was built without CUDA");
#endif
}

}  // namespace

torch::Device torch_device(Device device, [[maybe_unused]] int index) {
  if (device == Device::cpu) {
    return torch::kCPU;
  }
#ifdef NSA_CUDA
  if (index >= c10::cuda::device_count()) {
    throw Error("card " + std::to_string(index) + ", counted from 0: found " +
                std::to_string(c10::cuda::device_count()) + " CUDA device(s)");
  }
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
#else
  throw Error("device cuda: this worker was built without CUDA");
#endif
}

Communicator::Communicator(const CommunicatorOptions& options, CollectiveObserver& observer)
    : options_(options) {
  const bool nccl = options.backend == "nccl";
  const bool cuda = options.device == Device::cuda;
  if (nccl && !cuda) {
    throw Error("backend nccl needs device cuda");
  }
#ifdef NSA_CUDA
  if (cuda) {
    c10::cuda::set_device(torch_device(options.device, options.card).index());
  }
#endif
  auto store = make_store(options);
  group_ = c10::make_intrusive<c10d::ProcessGroup>(store, options.rank, options.world);
  // A prefix of its own keeps the backend's keys apart from those of whoever else uses the store.
  const auto backend_store = c10::make_intrusive<c10d::PrefixStore>("backend", store);
  auto backend = nccl ? make_nccl(options, backend_store) : make_gloo(options, backend_store);
  if (options.transport) backend = options.transport(std::move(backend));
  backend_ = c10::make_intrusive<ObservedBackend>(std::move(backend), "default", observer, cuda);
  const std::optional<c10::intrusive_ptr<c10d::Backend>> observed(backend_);
  // The Reducer keeps its bookkeeping on the CPU: Gloo serves both devices, NCCL only its own.
  group_->setBackend(
      cuda ? torch::kCUDA : torch::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, observed);
  group_->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
}

}  // namespace nsa
