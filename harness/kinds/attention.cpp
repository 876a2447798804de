#include "harness/kinds/attention.h"

#include <functional>
#include <map>
#include <string>

#include <ATen/Context.h>
#include <torch/cuda.h>

#include "harness/kinds/attention_inputs.h"
#include "harness/kinds/lone_rank.h"
#include "harness/scenario/constant_gates.h"
#include "harness/worker/record/layer_recorder.h"
#include "harness/worker/watch/kernel_trace.h"
#include "harness/worker/watch/late_streams.h"
#include "harness/worker/watch/nan_watch.h"

namespace harness {
namespace {

// Memory that nobody wrote reads as NaN. The deterministic kernels come with it: an axis of its own, never the only one.
void poison_memory() {
  at::globalContext().setDeterministicAlgorithms(true, true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}

// One layer's numbers, as every pass starts from them.
struct LayerInputs {
  torch::Tensor x_BSE;
  torch::Tensor dy_BSE;
};

// Where the batch's last sequence is computed.
enum class Placed { as_drawn, alone, last_of_four };

class AttentionCase {
 public:
  explicit AttentionCase(Session& session)
      : rank_(session),
        session_(session),
        scenario_(rank_.scenario),
        device_(device_of(session)),
        recorder_(rank_.model, rank_.watch, session.progress(), true) {
    draw_equal_weights(rank_.model, scenario_.seed);
  }

  void run() {
    rank_.run([this] { passes(); });
  }

 private:
  void passes() {
    set_gates(rank_.model);
    recorder_.begin(LoneRank::kStep, 0);
    traced([&] { run_layers(rank_.model, rank_.watch, recorder_, 0, "attention_layer"); });
    if (session_.wants_check("causal")) {
      const std::int64_t first = rank_.prefix_length();
      session_.sample("perturbed_from", LoneRank::kStep, static_cast<double>(first));
      recorder_.begin(LoneRank::kStep, 0);
      run_layers(rank_.model, rank_.watch, recorder_, first, "attention_layer_perturbed");
    }
    if (session_.wants_check("repeats_equal")) repeat();
    if (session_.wants_check("close_to_reference")) {
      run_reference();
    }
  }

  // The same layers on the same inputs again, and the last sequence elsewhere.
  void repeat() {
    for (const auto& [placed, name] : {std::pair{Placed::as_drawn, "attention_layer_2"},
                                       {Placed::as_drawn, "attention_layer_3"},
                                       {Placed::alone, "attention_layer_alone"},
                                       {Placed::last_of_four, "attention_layer_of_four"}}) {
      placed_ = placed;
      recorder_.begin(LoneRank::kStep, 0);
      run_layers(rank_.model, rank_.watch, recorder_, 0, name);
    }
    placed_ = Placed::as_drawn;
    if (device_.is_cuda()) repeat_with_late_streams();
  }

  // The same calls once more: with nothing beside anything, twice, and with either side of the streams late.
  void repeat_with_late_streams() {
    const auto call = [this](const char* name) {
      recorder_.begin(LoneRank::kStep, 0);
      run_layers(rank_.model, rank_.watch, recorder_, 0, name);
    };
    {
      const InSeries in_series(device_);
      call("attention_layer_in_series");
      call("attention_layer_in_series_2");
    }
    // In front of each seam: by the end of a layer the first delay is over.
    rank_.watch.in_front_of_seams([this] { make_late(late_, device_); });
    late_ = Late::current_stream;
    call("attention_layer_late");
    late_ = Late::other_streams;
    call("attention_layer_others_late");
    late_ = Late::nobody;
    rank_.watch.in_front_of_seams({});
  }

  // The first pass alone: the one that is judged by the routes of the case.
  void traced(const std::function<void()>& pass) {
    if (!scenario_.attention.trace_kernels) {
      pass();
      return;
    }
    KernelTrace trace;
    pass();
    for (const auto& [name, runs] : trace.stop()) {
      session_.channel().write(KernelRuns{LoneRank::kStep, name, runs});
    }
  }

  // The same layers with the plain implementation behind every seam: what the dtype and the device alone do to the numbers.
  void run_reference() {
    nsa::Routes routes;  // not the case's: these are not the routes it asked for
    nsa::NsaLm reference = make_reference_model(session_, routes);
    draw_equal_weights(reference, scenario_.seed);
    SeamWatch watch(session_.channel(), session_.progress());
    watch.install(reference);
    set_gates(reference);
    LayerRecorder recorder(reference, watch, session_.progress(), true);
    recorder.begin(LoneRank::kStep, 0);
    run_layers(reference, watch, recorder, 0, "attention_layer_reference");
  }

  void set_gates(nsa::NsaLm& model) const {
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      model->attention(layer)->set_gate_override(constant_gates(scenario_.attention.gate));
    }
  }

  // All layers, each on inputs of its own; from position `perturbed` on with other ones, unless that is 0.
  void run_layers(nsa::NsaLm& model,
                  SeamWatch& watch,
                  LayerRecorder& recorder,
                  std::int64_t perturbed,
                  const std::string& name) {
    watch.begin(LoneRank::kStep);
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      run_layer(model, layer, perturbed);
    }
    session_.enter("record", LoneRank::kStep);
    const bool is_judged = name == "attention_layer";
    if (is_judged) {
      recorder.write_exposure(session_.channel());
    }
    const bool has_nan = is_judged && recorder.has_nan();
    recorder.write(session_.out_of(LoneRank::kStep, 0), gradients(model), name);
    if (has_nan) {
      certify_nan(model, watch, recorder);
    }
  }

  // Watching costs many times what the layers do, a wait for the device at each operator: so it is done a second time, and only
  // when something is NaN. What does not come again has no certificate: nobody saw where it was born.
  void certify_nan(nsa::NsaLm& model, SeamWatch& watch, LayerRecorder& recorder) {
    recorder.begin(LoneRank::kStep, 0);
    watch.begin(LoneRank::kStep);
    const NanWatch nan(watch, LoneRank::kStep, scenario_.attention.poison);
    for (int layer = 0; layer < rank_.layers(); ++layer) {
      run_layer(model, layer, 0);
    }
    if (recorder.has_nan()) {
      write_certificate(nan, session_.out_of(LoneRank::kStep, 0));
    }
  }

  void run_layer(nsa::NsaLm& model, int layer, std::int64_t perturbed) {
    const LayerInputs inputs = inputs_of(model, layer, perturbed);
    for (auto& parameter : model->attention(layer)->parameters()) {
      parameter.mutable_grad().reset();
    }
    session_.enter("forward", LoneRank::kStep);
    const auto y_BSE = model->attention(layer)->forward(inputs.x_BSE);
    session_.enter("backward", LoneRank::kStep);
    make_late(late_, device_);
    y_BSE.backward(inputs.dy_BSE);
    if (late_ != Late::nobody) torch::cuda::synchronize();  // nothing is late for the next layer
  }

  // The last sequence of the batch, alone or after three others.
  void place(InputRequest request, torch::Tensor& x_BSE, torch::Tensor& dy_BSE) const {
    if (placed_ == Placed::as_drawn) return;
    const torch::Tensor last_x = x_BSE.slice(0, x_BSE.size(0) - 1);
    const torch::Tensor last_dy = dy_BSE.slice(0, dy_BSE.size(0) - 1);
    x_BSE = last_x;
    dy_BSE = last_dy;
    if (placed_ == Placed::alone) return;
    request.batch = 3;
    ++request.seed;
    x_BSE = torch::cat({draw_inputs(request, scenario_.model), last_x});
    dy_BSE = torch::cat({draw_cotangents(request, scenario_.model), last_dy});
  }

  [[nodiscard]] LayerInputs inputs_of(nsa::NsaLm& model, int layer, std::int64_t perturbed) const {
    const InputRequest request{scenario_.attention.inputs,
                               scenario_.seed,
                               layer,
                               scenario_.training.batch_size,
                               scenario_.training.seq_len};
    auto x_BSE = draw_inputs(request, scenario_.model);
    auto dy_BSE = draw_cotangents(request, scenario_.model);
    if (perturbed > 0) {
      x_BSE = perturbed_suffix(x_BSE, perturbed, scenario_.seed, layer);
      dy_BSE.slice(1, perturbed).zero_();
    }
    place(request, x_BSE, dy_BSE);
    const auto options = model->attention(layer)->parameters().front().options();
    const bool gaps =
        layer % 2 == 1;  // what reads memory as if it had none shows in every second layer
    const auto laid_out = [&](const torch::Tensor& tensor) {
      return gaps ? with_gaps(tensor.to(options)) : tensor.to(options);
    };
    return {laid_out(x_BSE).requires_grad_(true), laid_out(dy_BSE)};
  }

  std::map<std::string, torch::Tensor> gradients(nsa::NsaLm& model) const {
    std::map<std::string, torch::Tensor> found;
    for (const auto& [name, parameter] : named_parameters(model)) {
      if (parameter.grad().defined()) {
        found[name] = parameter.grad();
      }
    }
    return found;
  }

  LoneRank rank_;
  Session& session_;
  const Scenario& scenario_;
  torch::Device device_;
  LayerRecorder recorder_;
  Placed placed_ = Placed::as_drawn;
  Late late_ = Late::nobody;
};

void run_attention(Session& session) {
  if (session.the_case().scenario.attention.poison) {
    poison_memory();
  }
  AttentionCase(session).run();
}

}  // namespace

Kind attention() {
  return {"attention",
          "every attention layer alone: forward and backward on inputs that can fail it, judged by "
          "the oracle",
          run_attention};
}

}  // namespace harness
