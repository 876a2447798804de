// Streams of a card that are held up, whatever else the card does. A kernel of one thread waits on each. It ends when it was held
// for some time since it was last asked to go on. It counts the card's clock only while it runs: what the card gives to other
// processes meanwhile does not make the hold shorter. Nothing is launched behind it: what waits at the head of a queue of the card
// holds up every stream that shares the queue.
//
// The kernel is PTX, which the driver translates: for every card, with and without nvcc.
#pragma once

#include <cstdint>
#include <vector>

#ifdef NSA_CUDA
#include <c10/cuda/CUDAStream.h>

#include "nsa/torch.h"

namespace harness {

// What is launched on the stream from now on begins some 20 ms of this process's time on the card later than it would.
// Throws nsa::Error where the driver takes no kernel; so does HeldStreams::hold().
void hold_once(const c10::cuda::CUDAStream& stream);

class HeldStreams {
 public:
  explicit HeldStreams(std::vector<c10::cuda::CUDAStream> streams);

  // Each stream is held for some 20 ms of this process's time on the card from now on: those that are held already go on, the
  // others begin.
  void hold();

 private:
  std::vector<c10::cuda::CUDAStream> streams_;
  torch::Tensor
      words_;  // pinned, int32: first what the host says, then for each stream how many of its holds have ended
  std::vector<std::uint32_t> begun_;  // holds of each stream
};

}  // namespace harness
#endif
