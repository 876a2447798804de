#include "harness/kinds/sweep.h"

#include <cmath>
#include <vector>

#include "harness/kinds/kept_memory.h"
#include "harness/kinds/model_parts.h"
#include "harness/kinds/step_clock.h"
#include "harness/run/looks/machine_state.h"
#include "harness/worker/fault.h"
#include "harness/worker/watch/memory_watch.h"
#include "nsa/train/optimizer.h"
#ifdef NSA_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace harness {
namespace {

// One point of the sweep. Samples of a point carry its number, counted from 1, as their step.
struct Point {
  std::int64_t seq_len = 0;
  std::int64_t batch_size = 0;
  std::int64_t n_layers = 0;
};

std::vector<std::int64_t> or_one(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() ? std::vector<std::int64_t>{value} : list;
}

std::vector<Point> points_of(const Scenario& scenario) {
  std::vector<Point> points;
  for (const auto layers : or_one(scenario.sweep.n_layers, scenario.model.n_layers)) {
    for (const auto batch : or_one(scenario.sweep.batch_size, scenario.training.batch_size)) {
      for (const auto length : or_one(scenario.sweep.seq_len, scenario.training.seq_len)) {
        points.push_back({length, batch, layers});
      }
    }
  }
  return points;
}

double memory_of(const torch::Device& device) {
#ifdef NSA_CUDA
  if (device.is_cuda()) {
    return static_cast<double>(at::cuda::getDeviceProperties(device.index())->totalGlobalMem);
  }
#else
  (void)device;
#endif
  return static_cast<double>(usable_memory_bytes());
}

class SweepCase {
 public:
  explicit SweepCase(Session& session)
      : session_(session),
        device_(device_of(session)),
        memory_(device_),
        fired_(session.channel()) {}

  void run() {
    session_.sample("memory_bytes", 0, memory_of(device_));
    std::int64_t number = 0;
    try {
      for (const Point& point : points_of(session_.the_case().scenario)) {
        run_point(point, ++number);
      }
    } catch (...) {
      fired_.write_total();
      throw;
    }
    fired_.write_total();
    session_.sample("rss_peak_bytes", number, peak_resident_bytes());
  }

 private:
  // The first step makes the optimiser's moments, and shows what each seam keeps; the second is the one that is measured.
  void run_point(const Point& point, std::int64_t number) {
    Session at_point = session_at(point);
    measure_plain(at_point, point, number);
    nsa::Routes routes;
    nsa::NsaLm model = make_model(at_point, routes);
    FaultContext context{session_.the_case().scenario.fault.value_or(FaultRequest{}),
                         at_point,
                         0,
                         1,
                         model,
                         routes,
                         fired_};
    if (session_.fault() != nullptr) session_.fault()->install(context);
    KeptMemory kept(memory_);
    kept.watch(model);
    std::vector<torch::Tensor> parameters = model->parameters();
    const nsa::TrainingConfig& training = session_.the_case().scenario.training;
    nsa::Optimizer optimizer(
        parameters, training.optimizer, training.precision, optimizer_of(session_));
    const auto tokens_BS = draw_tokens(point, number);
    step(model, optimizer, routes, tokens_BS, number);
    kept.stop();
    write_kept("kept_bytes", kept, number);
    drop_gradients(parameters);
    wait_for(device_);
    const std::int64_t workspaces = memory_.free_workspaces();  // the step takes them again
    const std::int64_t held = memory_.held_bytes();
    memory_.reset_peak();
    const StepClock clock(device_);
    const double loss = step(model, optimizer, routes, tokens_BS, number);
    const double step_ms = clock.elapsed_ms();
    write(point, number, {held, memory_.peak_bytes_of_blocks() - workspaces}, step_ms, loss);
    write_routes(session_, routes);
  }

  // What the same implementations keep of the same numbers when nothing was put in front of them.
  void measure_plain(Session& at_point, const Point& point, std::int64_t number) {
    session_.enter("forward", number);
    nsa::Routes routes;
    nsa::NsaLm model = make_model(at_point, routes);
    KeptMemory kept(memory_);
    kept.watch(model);
    (void)model->forward(draw_tokens(point, number));
    write_kept("kept_bytes_plain", kept, number);
  }

  void write_kept(const std::string& metric, const KeptMemory& kept, std::int64_t number) {
    for (const auto& [place, bytes] : kept.bytes()) {
      session_.sample(metric + "." + place.first + "." + std::to_string(place.second),
                      number,
                      static_cast<double>(bytes));
    }
  }

  [[nodiscard]] Session session_at(const Point& point) const {
    Case at_point = session_.the_case();
    at_point.scenario.model.n_layers = point.n_layers;
    return {session_.options(),
            std::move(at_point),
            session_.channel(),
            session_.progress(),
            session_.heartbeat()};
  }

  [[nodiscard]] torch::Tensor draw_tokens(const Point& point, std::int64_t number) const {
    const Scenario& scenario = session_.the_case().scenario;
    const auto random =
        at::detail::createCPUGenerator(static_cast<std::uint64_t>(scenario.seed + number));
    return torch::randint(
               scenario.model.vocab_size, {point.batch_size, point.seq_len}, random, torch::kLong)
        .to(device_);
  }

  double step(nsa::NsaLm& model,
              nsa::Optimizer& optimizer,
              nsa::Routes& routes,
              const torch::Tensor& tokens_BS,
              std::int64_t number) {
    session_.enter("forward", number);
    session_.sample("tokens", number, static_cast<double>(tokens_BS.numel()));
    const auto loss = nsa::next_token_loss(model->forward(tokens_BS), tokens_BS);
    session_.enter("backward", number);
    optimizer.scaled(loss).backward();
    session_.enter("optimizer", number);
    optimizer.step();
    routes.ran("optimizer", -1, optimizer.implementation());
    return loss.item<double>();
  }

  static void drop_gradients(std::vector<torch::Tensor>& parameters) {
    for (auto& parameter : parameters) {
      parameter.mutable_grad().reset();
    }
  }

  struct BytesOfTensors {
    std::int64_t held;
    std::int64_t peak;
  };

  void write(const Point& point,
             std::int64_t number,
             const BytesOfTensors& bytes,
             double step_ms,
             double loss) {
    const auto sample = [&](const char* metric, double value) {
      session_.sample(metric, number, value);
    };
    sample("seq_len", static_cast<double>(point.seq_len));
    sample("batch_size", static_cast<double>(point.batch_size));
    sample("n_layers", static_cast<double>(point.n_layers));
    sample("loss", loss);
    sample("held_bytes", static_cast<double>(bytes.held));
    sample("peak_bytes", static_cast<double>(bytes.peak));
    sample("step_ms", step_ms);
  }

  Session& session_;
  torch::Device device_;
  MemoryWatch memory_;
  Fired fired_;
};

void run_sweep(Session& session) {
  SweepCase(session).run();
}

}  // namespace

Kind sweep() {
  return {"sweep", "one training step at every combination of sizes: memory and time", run_sweep};
}

}  // namespace harness
