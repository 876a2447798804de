// A training step as one CUDA graph: captured once, then launched again and again. The host decides nothing in it and moves no
// memory: what goes in and what comes out lies in tensors that stay where they are. LibTorch's graphs and their pool of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "nsa/torch.h"

namespace nsa {

inline constexpr const char* kGraphName =
    "cuda_graph";  // as launches are counted in the routes, of seam "step"

// Throws: Refused, by the seam and the implementation that cannot be captured. `route` has no `auto` in it.
void check_capturable(const std::map<std::string, std::string>& route);

class StepGraph {
 public:
  // On a stream of its own. Throws: Refused where `device` is no card.
  explicit StepGraph(const torch::Device& device);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // Does `work` with the graph's stream as the current one. Everything that the graph's tensors take part in belongs there.
  void on_stream(const std::function<void()>& work);
  // Captures what `step` launches; nothing of it runs. `step` ran before, on this stream, so that what it makes once is there.
  // REQUIRES: on_stream(). Throws: c10::Error where something waits for the host; then there is no graph.
  void capture(const std::function<void()>& step);
  // Runs the captured step once more. REQUIRES: on_stream(), capture().
  void launch();
  [[nodiscard]] bool captured() const { return captured_; }

 private:
  struct OnDevice;
  std::unique_ptr<OnDevice> on_device_;
  bool captured_ = false;
};

}  // namespace nsa
