// How many bytes of tensors this process holds, and the most it held: counted at LibTorch's allocators, so that libraries,
// code and what the allocator keeps for later are not in it. On a GPU the caching allocator's own figures: what was asked for, and
// of the peak also what the blocks take (max_memory_allocated). A tensor may be given a block up to a MiB larger than its
// neighbour's of the same size: with the same steps, blocks differ from run to run, and what was asked for does not.
#pragma once

#include <cstdint>

#include "nsa/torch.h"

namespace harness {

class MemoryWatch {
 public:
  // Counts what is allocated on the CPU from now on, by any thread; told when this thread (with the autograd engine's CPU work,
  // which runs in it) allocates or frees next.
  explicit MemoryWatch(const torch::Device& device);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Frees what LibTorch's allocator holds for cuBLAS, which takes it again when it needs it; no kernel may be under way. Returns
  // the bytes: with 32 MiB for each thread that multiplies matrices it is no tensor, and can be more than a small model.
  std::int64_t free_workspaces();
  // The peak starts again from what is held now.
  void reset_peak();
  [[nodiscard]] std::int64_t held_bytes() const;
  [[nodiscard]] std::int64_t peak_bytes() const;
  [[nodiscard]] std::int64_t peak_bytes_of_blocks() const;

 private:
  torch::Device device_;
  bool counted_before_;
};

}  // namespace harness
