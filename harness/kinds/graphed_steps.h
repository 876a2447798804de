// Training steps of kind throughput that are launched as one CUDA graph (nsa/train/step_graph.h): the first ones run as ever, then
// one is captured, and all later ones are launches. A launch counts itself in the routes, as seam "step".
#pragma once

#include <functional>
#include <vector>

#include "harness/worker/session.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/train/data.h"
#include "nsa/train/optimizer.h"
#include "nsa/train/step_graph.h"

namespace harness {

// All of it outlives the steps.
struct StepParts {
  nsa::NsaLm& model;
  nsa::Optimizer& optimizer;
  const nsa::DataSource& source;
  nsa::Routes& routes;
};

class GraphedSteps {
 public:
  // Throws: nsa::Refused where there is no card or the optimiser waits for the host.
  GraphedSteps(Session& session, const StepParts& parts, const torch::Device& device);

  // The whole training belongs into `work`: it runs on the graph's stream.
  void on_stream(const std::function<void()>& work) { graph_.on_stream(work); }

  // Whether `step` is launched and not run by the host.
  [[nodiscard]] static bool is_launched(std::int64_t step) { return step > nsa::kStepsBeforeGraph; }
  // Before `step`, outside of its time: captures what it launches, once.
  void prepare(std::int64_t step);
  // One optimiser step. The host waits for nothing but the tokens.
  void run(std::int64_t step);
  // Of the last step. Waits for the device.
  [[nodiscard]] double mean_loss() const;
  // After the last step: the optimiser is the host's again.
  void finish() { parts_.optimizer.decide_on_host(); }

 private:
  void load_tokens(std::int64_t step);
  void work(std::int64_t step);

  Session& session_;
  StepParts parts_;
  nsa::StepGraph graph_;
  std::vector<torch::Tensor> tokens_;  // of each micro-batch, [B,S] on the device
  std::vector<torch::Tensor> losses_;  // of each micro-batch, where the graph leaves them
};

}  // namespace harness
