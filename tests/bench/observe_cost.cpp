// What a level of observation costs a training step: the ranks' own steps, as the worker runs them, beside the same steps with
// nothing of the harness around them. One process, one rank. tests/bench/observe.py starts it many times, in turn.
//   observe_cost CASE.json plain|harness [count]
// CASE.json is the case of a run of kind training or throughput, of one micro-batch a step. `count` counts operators, which costs
// time itself. Prints one JSON object: processor and wall time of each step after the first kWarmUp ones, and the operators of the
// last one that was measured. Rows of the harness go to descriptor 3.
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <sys/socket.h>
#include <vector>

#include <ATen/record_function.h>

#include "harness/kinds/list.h"
#include "harness/kinds/model_parts.h"
#include "harness/kinds/training_parts.h"
#include "harness/worker/vector_math.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace {

using harness::Session;

constexpr int kEvents = 3;
constexpr std::int64_t kWarmUp =
    3;  // the optimiser's state, the reducer's second plan, the allocator's caches

std::atomic<std::int64_t> operators{0};  // NOLINT: RecordFunction takes plain functions

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& /*function*/) {
  ++operators;
  return nullptr;
}

struct Mark {  // a step begins
  double cpu_ms = 0.0;
  std::chrono::steady_clock::time_point wall;
  std::int64_t operators = 0;
};

class Marks {
 public:
  void begin() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    marks_.push_back(
        {static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6,
         std::chrono::steady_clock::now(),
         operators});
  }

  [[nodiscard]] nlohmann::json told() const {
    nlohmann::json cpu_ms = nlohmann::json::array();
    nlohmann::json wall_ms = nlohmann::json::array();
    for (std::size_t i = kWarmUp + 1; i < marks_.size(); ++i) {
      const Mark& begun = marks_[i - 1];
      const std::chrono::duration<double, std::milli> wall = marks_[i].wall - begun.wall;
      cpu_ms.push_back(marks_[i].cpu_ms - begun.cpu_ms);
      wall_ms.push_back(wall.count());
    }
    return {{"cpu_ms", cpu_ms},
            {"wall_ms", wall_ms},
            {"operators", marks_.back().operators - marks_.at(marks_.size() - 2).operators}};
  }

 private:
  std::vector<Mark> marks_;
};

struct NoObserver : nsa::CollectiveObserver {
  void enqueued(const nsa::CollectiveInfo& /*info*/) override {}
  void completed(std::int64_t /*sequence*/, const std::string& /*group*/) override {}
};

// The steps that a kind runs, and nothing else.
class PlainSteps {
 public:
  explicit PlainSteps(Session& session)
      : scenario_(session.the_case().scenario),
        device_(harness::device_of(session)),
        model_(harness::make_model(session, routes_)),
        parameters_(harness::named_parameters(model_)),
        source_(harness::make_source(scenario_)),
        optimizer_(model_->parameters(),
                   scenario_.training.optimizer,
                   scenario_.training.precision,
                   harness::optimizer_of(session)) {
    if (!scenario_.trains()) return;
    communicator_ =
        std::make_unique<nsa::Communicator>(harness::communicator_options(session), nobody_);
    parallel_ = std::make_unique<nsa::DataParallel>(
        parameters_,
        *communicator_,
        routes_,
        harness::data_parallel_options(session, *communicator_, routes_));
  }

  void run(Marks& marks) {
    for (std::int64_t step = 1; step <= scenario_.training.steps; ++step) {
      marks.begin();
      for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
      const auto tokens_BS = source_->batch(step, 0, 0, 1).contiguous().to(device_);
      if (parallel_) parallel_->before_forward(true);
      const auto logits_BSV = harness::logits_of(model_, tokens_BS, scenario_.training.precision);
      const auto loss = optimizer_.scaled(nsa::next_token_loss(logits_BSV, tokens_BS));
      parallel_ ? parallel_->backward(loss) : loss.backward();
      optimizer_.step();
    }
  }

 private:
  const harness::Scenario& scenario_;
  torch::Device device_;
  nsa::Routes routes_;
  nsa::NsaLm model_;
  nsa::NamedParameters parameters_;
  std::unique_ptr<nsa::DataSource> source_;
  nsa::Optimizer optimizer_;
  NoObserver nobody_;
  std::unique_ptr<nsa::Communicator> communicator_;  // of kind training
  std::unique_ptr<nsa::DataParallel> parallel_;
};

void run_kind(Session& session, Marks& marks) {
  std::int64_t begun = 0;
  session.on_phase([&](const std::string& phase, std::int64_t step) {
    if (phase != "data" || step <= begun) return;
    begun = step;
    marks.begin();
  });
  for (const harness::Kind& kind : harness::all_kinds()) {
    if (kind.name == session.the_case().scenario.kind) kind.run(session);
  }
}

harness::WorkerOptions options_of(const std::string& case_file) {
  harness::WorkerOptions options;
  options.case_file = case_file;
  options.folder = std::filesystem::path(case_file).parent_path().string();
  options.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(options.listen_fd, generic, size) != 0 || listen(options.listen_fd, 8) != 0 ||
      getsockname(options.listen_fd, generic, &size) != 0) {
    throw nsa::Error("no loopback socket");
  }
  options.port = ntohs(address.sin_port);
  return options;
}

int measure(const std::string& case_file, bool plain) {
  constexpr std::int64_t kMostBytes = 16 << 20;
  const harness::Case the_case =
      harness::case_from_json(nsa::read_file(case_file, kMostBytes), case_file);
  if (the_case.scenario.training.accumulate != 1 || the_case.scenario.parallel.ranks != 1) {
    throw nsa::Error("found several ranks or micro-batches, wanted one");
  }
  harness::Channel channel(kEvents, 0, 0);
  harness::Progress progress;
  harness::HeartbeatThread heartbeat(channel, progress);
  Session session(options_of(case_file), the_case, channel, progress, heartbeat);
  at::set_num_interop_threads(1);
  harness::prepare_vector_math();
  Marks marks;
  if (plain) {
    PlainSteps(session).run(marks);
  } else {
    if (session.observe() >= harness::kWatchEvents) (void)progress.watch_operators();
    run_kind(session, marks);
  }
  std::cout << marks.told().dump() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  harness::block_stack_request();
  if (argc < 3) return 3;
  if (argc > 3) {
    at::addGlobalCallback(at::RecordFunctionCallback(&count).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  try {
    const int code = measure(argv[1], std::string(argv[2]) == "plain");
    _exit(code);  // a process group is not waited for
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    _exit(1);
  }
}
