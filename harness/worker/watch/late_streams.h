// What makes a race between the streams of a card visible: one side that is late, or no side beside another. Streams that race
// may give the right numbers thousands of times; where one begins late, what does not wait for it reads what was there before.
// On a CPU nothing of this does anything.
#pragma once

#include <memory>

#include "nsa/torch.h"

namespace harness {

enum class Late {
  nobody,
  current_stream,
  other_streams,  // of LibTorch's pools
};

// Some 20 ms of nothing on these streams, in front of what is launched on them from now on, counted in this process's time on the
// card.
// Other streams are late by the card's clock, which the host runs far ahead of: it first waits for what the current stream was
// given.
// While they are held, they go on being held: as long as this is asked again within 20 ms, they do nothing (held_streams.h).
void make_late(Late late, const torch::Device& device);

// While it lives, the same again and again in a backward, in front of its operators. One at a time.
class LateInBackward {
 public:
  LateInBackward(Late late, const torch::Device& device);
  ~LateInBackward();
  LateInBackward(const LateInBackward&) = delete;
  LateInBackward& operator=(const LateInBackward&) = delete;

 private:
  struct Callback;
  std::unique_ptr<Callback> callback_;
};

// While it lives, the host waits for the card after every operator of LibTorch, so that no two run beside each other. Kernels that
// one operator launches on several streams by itself still do.
class InSeries {
 public:
  explicit InSeries(const torch::Device& device);
  ~InSeries();
  InSeries(const InSeries&) = delete;
  InSeries& operator=(const InSeries&) = delete;

 private:
  struct Callback;
  std::unique_ptr<Callback> callback_;
};

}  // namespace harness
