// Where the time of a training step goes on a card: kernels by name with their share of the step, the share in which no kernel
// runs, tokens per second and the largest memory. Or the loss of a short training run.
//   step_profile BATCH LENGTH [SEAM=IMPLEMENTATION | KEY=VALUE]...
//     rank=R world=W port=P  one of W processes over NCCL, each on the card of its rank; rank 0 alone traces
//     losses=N text=FILE     N steps on the bytes of FILE in place of measuring; prints the mean loss of the last 50
//     noise=S                initial weights are moved by up to half a rounding, drawn from S
//     graph=true             from the third step on a step is one launch of a CUDA graph; of one process
// The model is m7c_125m's shape in bf16 with masters; random tokens. Three steps warm up, the next ten are timed, two more are
// traced.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

#include "harness/worker/record/tensor_file.h"
#include "harness/worker/watch/kernel_trace.h"
#include "nsa/base/hash.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/train/optimizer.h"
#include "nsa/train/step_graph.h"

namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

constexpr int kWarmUp = 3;
constexpr int kTimed = 10;
constexpr int kTraced = 2;

struct Step {
  nsa::NsaLm& model;
  nsa::Optimizer& optimizer;
  nsa::DataParallel* parallel;  // null: one process
  torch::Tensor tokens_BS;
  nsa::StepGraph* graph = nullptr;  // null: the host runs every step
  torch::Tensor loss = {};
  std::int64_t made = 0;

  torch::Tensor operator()() {
    if (graph == nullptr || ++made <= nsa::kStepsBeforeGraph) {
      work();
      return loss;
    }
    if (!graph->captured()) graph->capture([this] { work(); });
    graph->launch();
    return loss;
  }

  void work() {
    if (parallel != nullptr) parallel->before_forward();
    const torch::Tensor root = nsa::next_token_loss(model->forward(tokens_BS), tokens_BS);
    if (parallel != nullptr) {
      parallel->backward(root);
    } else {
      root.backward();
    }
    if (graph != nullptr) {
      static_cast<void>(optimizer.step_on_device());
    } else {
      optimizer.step();
    }
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    loss = root.detach();
  }
};

double seconds_of(const std::function<void()>& work) {
  torch::cuda::synchronize();
  const auto begin = std::chrono::steady_clock::now();
  work();
  torch::cuda::synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Share {
  std::string name;
  double ms = 0.0;
  int runs = 0;
};

void trace(Step& step) {
  const std::set<torch::profiler::impl::ActivityType> activities = {
      torch::profiler::impl::ActivityType::CUDA};
  const ProfilerConfig config(ProfilerState::KINETO);
  torch::cuda::synchronize();
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  for (int i = 0; i < kTraced; ++i) static_cast<void>(step());
  torch::cuda::synchronize();
  const auto result = torch::autograd::profiler::disableProfiler();
  std::map<std::string, Share> shares;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> busy;
  for (const KinetoEvent& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    std::string name = event.name();
    if (name.find("at::native") != std::string::npos) {
      name = name.substr(0, 150);  // the functor tells what it is
    } else {
      name = harness::kernel_name(name);
    }
    Share& share = shares[name];
    share.name = name;
    share.ms += static_cast<double>(event.durationNs()) * 1e-6 / kTraced;
    ++share.runs;
    busy.emplace_back(event.startNs(), event.endNs());
  }
  std::sort(busy.begin(), busy.end());
  double covered = 0.0;
  std::uint64_t end = 0;
  for (const auto& [from, to] : busy) {
    if (to > end) covered += static_cast<double>(to - std::max(from, end)) * 1e-6;
    end = std::max(end, to);
  }
  const double whole = static_cast<double>(end - busy.front().first) * 1e-6;
  std::printf("traced step %.2f ms, no kernel in %.1f %% of it\n",
              whole / kTraced,
              100 * (1 - covered / whole));
  std::vector<Share> sorted;
  for (const auto& [name, share] : shares) sorted.push_back(share);
  std::sort(
      sorted.begin(), sorted.end(), [](const Share& a, const Share& b) { return a.ms > b.ms; });
  for (std::size_t i = 0; i < std::min<std::size_t>(sorted.size(), 45); ++i) {
    const Share& share = sorted[i];
    std::printf("%8.3f ms %5.1f %% %5d  %s\n",
                share.ms,
                100 * share.ms * kTraced / whole,
                share.runs / kTraced,
                share.name.c_str());
  }
}

// What stands on the command line behind batch and length.
class Arguments {
 public:
  Arguments(int count, char** words) {
    for (int i = 3; i < count; ++i) {
      const std::string pair = words[i];
      const std::string key = pair.substr(0, pair.find('='));
      const std::string value = pair.substr(pair.find('=') + 1);
      const bool is_own = std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
      (is_own ? own_ : route)[key] = value;
    }
  }
  [[nodiscard]] std::string text(const std::string& key) const {
    const auto found = own_.find(key);
    return found == own_.end() ? "" : found->second;
  }
  [[nodiscard]] int number(const std::string& key, int otherwise) const {
    return own_.count(key) > 0 ? std::atoi(text(key).c_str()) : otherwise;
  }

  std::map<std::string, std::string> route;

 private:
  static constexpr std::array kKeys = {"rank", "world", "port", "losses", "text", "noise", "graph"};
  std::map<std::string, std::string> own_;
};

class NobodyObserves : public nsa::CollectiveObserver {
 public:
  void enqueued(const nsa::CollectiveInfo& /*info*/) override {}
  void completed(std::int64_t /*sequence*/, const std::string& /*group*/) override {}
};

// A listening socket of rank 0's store.
int listen_on(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool bound =
      ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;  // NOLINT
  if (!bound || ::listen(fd, 8) != 0)
    throw std::runtime_error("port " + std::to_string(port) + " is taken");
  return fd;
}

nsa::ModelConfig model_config() {
  nsa::ModelConfig config;
  config.dim = 768;
  config.n_layers = 12;
  config.n_heads = 12;
  config.n_kv_groups = 2;
  config.d_k = config.d_v = 64;
  config.l = 32;
  config.d = 16;
  config.l_sel = 64;
  config.n_sel = 16;
  config.w = 512;
  return config;
}

// Windows of the text at places that are drawn alike in every run.
void print_losses(Step& step, const Arguments& arguments, torch::IntArrayRef shape) {
  std::ifstream file(arguments.text("text"), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = torch::from_blob(const_cast<char*>(text.data()),  // NOLINT: only read from
                                      {static_cast<std::int64_t>(text.size())},
                                      torch::kByte)
                         .to(torch::kLong);
  std::mt19937_64 draw(17);
  double sum = 0.0;
  const int steps = arguments.number("losses", 0);
  for (int i = 0; i < steps; ++i) {
    std::vector<torch::Tensor> rows;
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      const auto from =
          static_cast<std::int64_t>(draw() % (text.size() - static_cast<std::size_t>(shape[1])));
      rows.push_back(bytes.slice(0, from, from + shape[1]));
    }
    step.tokens_BS.copy_(torch::stack(rows));
    const double loss = step().item<double>();
    if (i >= steps - 50) sum += loss / 50;
    if (i % 20 == 0) std::printf("step %d loss %.9g\n", i, loss);
  }
  std::string hashes;
  for (const auto& parameter : step.model->parameters()) {
    hashes += nsa::hash_hex(harness::bytes_of(parameter.detach().to(torch::kCPU).contiguous()));
  }
  std::printf("parameters after %d steps: %s\n", steps, nsa::hash_hex(hashes).c_str());
  std::printf("mean loss of the last 50 of %d steps: %.5f\n", steps, sum);
}

void measure(Step& step, int rank, int world) {
  for (int i = 0; i < kWarmUp; ++i) static_cast<void>(step());
  const double seconds = seconds_of([&] {
    for (int i = 0; i < kTimed; ++i) static_cast<void>(step());
  });
  const auto peak =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(rank))
          .allocated_bytes[0]
          .peak;
  std::printf(
      "%s, rank %d of %d, %lld x %lld: %.2f ms, %.0f tokens/s of this rank, %.2f GiB allocated at "
      "most\n",
      at::cuda::getCurrentDeviceProperties()->name,
      rank,
      world,
      static_cast<long long>(step.tokens_BS.size(0)),
      static_cast<long long>(step.tokens_BS.size(1)),
      seconds / kTimed * 1e3,
      static_cast<double>(step.tokens_BS.numel() * kTimed) / seconds,
      static_cast<double>(peak) / (1024.0 * 1024.0 * 1024.0));
  if (world == 1) trace(step);
}

int run(std::int64_t batch, std::int64_t length, const Arguments& arguments) {
  const int rank = arguments.number("rank", 0);
  const int world = arguments.number("world", 1);
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(rank));
  const c10::DeviceGuard guard(device);
  torch::manual_seed(1);
  nsa::Routes routes;
  nsa::NsaLm model(model_config(), arguments.route, routes);
  model->to(device, torch::kBFloat16);
  if (const int noise = arguments.number("noise", 0); noise > 0) {
    const torch::NoGradGuard no_gradient;
    torch::manual_seed(static_cast<std::uint64_t>(noise));
    for (auto& parameter : model->parameters()) {
      const torch::Tensor factor = 1.0 + (torch::rand_like(parameter, torch::kFloat) - 0.5) / 128;
      parameter.copy_(parameter.to(torch::kFloat) * factor);
    }
  }
  const auto asked = arguments.route.find("optimizer");
  nsa::Optimizer optimizer(model->parameters(),
                           {},
                           nsa::Precision::bf16,
                           asked == arguments.route.end() ? "reference" : asked->second);
  NobodyObserves nobody;
  std::unique_ptr<nsa::Communicator> communicator;
  std::unique_ptr<nsa::DataParallel> parallel;
  if (world > 1) {
    nsa::CommunicatorOptions options;
    options.rank = options.card = rank;
    options.world = world;
    options.backend = "nccl";
    options.device = nsa::Device::cuda;
    options.port = arguments.number("port", 29511);
    if (rank == 0) options.listen_fd = listen_on(options.port);
    communicator = std::make_unique<nsa::Communicator>(options, nobody);
    nsa::NamedParameters parameters;
    for (const auto& item : model->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    parallel = std::make_unique<nsa::DataParallel>(
        parameters, *communicator, routes, nsa::DataParallelOptions{});
  }
  const auto options = torch::TensorOptions().dtype(torch::kLong).device(device);
  Step step{model,
            optimizer,
            parallel.get(),
            torch::randint(model_config().vocab_size, {batch, length}, options)};
  const auto work = [&] {
    if (arguments.number("losses", 0) > 0) {
      print_losses(step, arguments, {batch, length});
    } else {
      measure(step, rank, world);
    }
  };
  if (arguments.text("graph") != "true") {
    work();
    return 0;
  }
  if (world > 1) throw std::runtime_error("graph=true is of one process");
  nsa::check_capturable(arguments.route);
  nsa::StepGraph graph(device);
  optimizer.decide_on_device(std::max(arguments.number("losses", 0), kWarmUp + kTimed + kTraced));
  step.graph = &graph;
  graph.on_stream(work);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: step_profile BATCH LENGTH [SEAM=IMPLEMENTATION | KEY=VALUE]...\n");
    return 3;
  }
  return run(std::atoll(words[1]), std::atoll(words[2]), Arguments(count, words));
}
