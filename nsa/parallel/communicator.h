// One rank's way to its peers: a TCP store (on loopback where nobody says otherwise) and a process group on Gloo or NCCL, every
// collective observed.
// Made once per process, used by one thread. Every wait in it ends after `timeout`.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "nsa/base/config.h"
#include "nsa/parallel/observed_backend.h"
#include "nsa/torch.h"

namespace nsa {

struct CommunicatorOptions {
  int rank = 0;
  int world = 1;
  std::string backend = "gloo";  // gloo, nccl
  Device device = Device::cpu;
  int card = 0;  // of this rank, with CUDA; Gloo's ranks may share one
  int port = 0;  // of the store
  int listen_fd =
      -1;  // rank 0: the bound and listening socket of that port; the store takes it over
  std::string store = "127.0.0.1";    // the address of rank 0
  std::string address = "127.0.0.1";  // of this rank: Gloo listens there
  std::chrono::milliseconds timeout{600'000};
  // What stands between the process group and the back end, where anything does: made of the back end once.
  std::function<c10::intrusive_ptr<c10d::Backend>(c10::intrusive_ptr<c10d::Backend>)> transport =
      {};
};

class Communicator {
 public:
  // Joins the group; returns when every rank has. Throws: Error (backend not built in, no such card), c10::Error.
  Communicator(const CommunicatorOptions& options, CollectiveObserver& observer);

  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }
  [[nodiscard]] int rank() const { return options_.rank; }
  [[nodiscard]] int world() const { return options_.world; }
  // CUDA operations that have completed since the last call are told to the observer. Thread-safe.
  void poll_completed() { backend_->poll_completed(); }

 private:
  CommunicatorOptions options_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::intrusive_ptr<ObservedBackend> backend_;
};

// cpu, or the card with this number. Throws: Error when built without CUDA or there is no such card.
[[nodiscard]] torch::Device torch_device(Device device, int index);

}  // namespace nsa
