#include "harness/kinds/attention.h"

#include <ATen/Context.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "harness/kinds/attention_inputs.h"
#include "harness/kinds/model_parts.h"
#include "harness/worker/fault.h"
#include "harness/worker/layer_recorder.h"
#include "harness/worker/nan_watch.h"
#include "harness/worker/seam_watch.h"

namespace harness {
namespace {

constexpr std::int64_t kStep = 1;  // every look at the layers belongs to the one step there is

nsa::GateOverride gate_override(const std::string& gate) {
  if (gate == "cmp") return std::array{1.0, 0.0, 0.0};
  if (gate == "sel") return std::array{0.0, 1.0, 0.0};
  if (gate == "win") return std::array{0.0, 0.0, 1.0};
  if (gate == "all") return std::array{1.0, 1.0, 1.0};
  return std::nullopt;
}

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

class AttentionCase {
 public:
  explicit AttentionCase(Session& session)
      : session_(session),
        scenario_(session.the_case().scenario),
        model_(make_model(session, routes_)),
        watch_(session.channel()),
        recorder_(model_, watch_, session.progress(), true) {}

  void run() {
    Fired fired(session_.channel());
    FaultContext context{scenario_.fault.value_or(FaultRequest{}), session_, 0, 1, model_, routes_, fired};
    if (session_.fault() != nullptr) {
      session_.fault()->install(context);
    }
    watch_.install(model_);
    set_gates(model_);
    try {
      passes();
    } catch (...) {
      finish(fired);
      throw;
    }
    finish(fired);
  }

 private:
  void passes() {
    recorder_.begin(kStep, 0);
    run_layers(model_, watch_, recorder_, 0, "attention_layer");
    if (session_.wants_check("causal")) {
      const std::int64_t first = perturbed_from();
      session_.sample("perturbed_from", kStep, static_cast<double>(first));
      recorder_.begin(kStep, 0);
      run_layers(model_, watch_, recorder_, first, "attention_layer_perturbed");
    }
    if (session_.wants_check("close_to_reference")) {
      run_reference();
    }
  }

  // The same layers with the plain implementation behind every seam: what the dtype and the device alone do to the numbers.
  void run_reference() {
    nsa::Routes routes;  // not the case's: these are not the routes it asked for
    nsa::NsaLm reference = make_reference_model(session_, routes);
    SeamWatch watch(session_.channel());
    watch.install(reference);
    set_gates(reference);
    LayerRecorder recorder(reference, watch, session_.progress(), true);
    recorder.begin(kStep, 0);
    run_layers(reference, watch, recorder, 0, "attention_layer_reference");
  }

  void set_gates(nsa::NsaLm& model) const {
    for (int layer = 0; layer < layers(); ++layer) {
      model->attention(layer)->set_gate_override(gate_override(scenario_.attention.gate));
    }
  }

  // All layers, each on inputs of its own; from position `perturbed` on with other ones, unless that is 0.
  void run_layers(nsa::NsaLm& model, SeamWatch& watch, LayerRecorder& recorder, std::int64_t perturbed,
                  const std::string& name) {
    watch.begin(kStep);
    std::optional<NanBirth> birth;
    {
      const NanWatch nan(watch, kStep, scenario_.attention.poison);
      for (int layer = 0; layer < layers(); ++layer) {
        run_layer(model, layer, perturbed);
      }
      birth = nan.birth();
    }
    session_.enter("record", kStep);
    if (name == "attention_layer") {
      recorder.write_exposure(session_.channel());
      write_birth(recorder, birth);
    }
    recorder.write(session_.channel(), session_.options().folder, session_.folder_of(kStep, 0), gradients(model), name);
  }

  void run_layer(nsa::NsaLm& model, int layer, std::int64_t perturbed) {
    const LayerInputs inputs = inputs_of(model, layer, perturbed);
    for (auto& parameter : model->attention(layer)->parameters()) {
      parameter.mutable_grad().reset();
    }
    session_.enter("forward", kStep);
    const auto y_BSE = model->attention(layer)->forward(inputs.x_BSE);
    session_.enter("backward", kStep);
    y_BSE.backward(inputs.dy_BSE);
  }

  [[nodiscard]] LayerInputs inputs_of(nsa::NsaLm& model, int layer, std::int64_t perturbed) const {
    const InputRequest request{scenario_.attention.inputs, scenario_.seed, layer, scenario_.training.batch_size,
                               scenario_.training.seq_len};
    auto x_BSE = draw_inputs(request, scenario_.model);
    auto dy_BSE = draw_cotangents(request, scenario_.model);
    if (perturbed > 0) {
      x_BSE = perturbed_suffix(x_BSE, perturbed, scenario_.seed, layer);
      dy_BSE.slice(1, perturbed).zero_();
    }
    const auto options = model->attention(layer)->parameters().front().options();
    return {x_BSE.to(options).requires_grad_(true), dy_BSE.to(options)};
  }

  // A NaN that no operator made out of finite numbers came from memory that nobody wrote.
  void write_birth(const LayerRecorder& recorder, const std::optional<NanBirth>& birth) {
    if (!recorder.has_nan()) {
      return;
    }
    NanBirth unborn;
    unborn.step = kStep;
    unborn.direction = "forward";
    unborn.poisoned = scenario_.attention.poison;
    session_.channel().write(birth.value_or(unborn));
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

  [[nodiscard]] std::int64_t perturbed_from() const {
    const auto length = static_cast<double>(scenario_.training.seq_len);
    const auto first = static_cast<std::int64_t>(std::floor(scenario_.attention.prefix * length));
    return std::clamp<std::int64_t>(first, 1, std::max<std::int64_t>(1, scenario_.training.seq_len - 1));
  }

  void finish(Fired& fired) {
    fired.write_total();
    write_routes(session_, routes_);
    watch_.write_total();
    session_.sample("rss_peak_bytes", kStep, peak_resident_bytes());
  }

  [[nodiscard]] int layers() const { return static_cast<int>(scenario_.model.n_layers); }

  Session& session_;
  const Scenario& scenario_;
  nsa::Routes routes_;
  nsa::NsaLm model_;
  SeamWatch watch_;
  LayerRecorder recorder_;
};

void run(Session& session) {
  if (session.the_case().scenario.attention.poison) {
    poison_memory();
  }
  AttentionCase(session).run();
}

}  // namespace

Kind attention() {
  return {"attention", "every attention layer alone: forward and backward on inputs that can fail it, judged by the oracle", run};
}

}  // namespace harness
