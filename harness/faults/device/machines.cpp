// A machine that is not what it is taken for: another process uses the card, or a rank runs a program that was built from other
// sources.
#include "harness/faults/device/machines.h"

#include <array>
#include <csignal>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

#include "harness/faults/faults.h"
#include "nsa/base/error.h"

#ifdef NSA_CUDA
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace harness {
namespace {

constexpr int kBeginsWithin =
    60'000;  // ms: a process that links LibTorch, and its context on the card

// Returns when it has begun.
void start_other_process(int card) {
  std::array<int, 2> told{};
  if (pipe(told.data()) != 0) throw nsa::Error("fault: no pipe to the other process");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, told[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&files, kEventFd);  // its end means that of the rank
  posix_spawn_file_actions_addclose(&files, told[0]);
  std::string program = "nsa-harness-worker";
  std::string verb = "--occupy";
  std::string number = std::to_string(card);
  std::array<char*, 4> argv = {program.data(), verb.data(), number.data(), nullptr};
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, "/proc/self/exe", &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  close(told[1]);
  pollfd begun{told[0], POLLIN, 0};
  char byte = 0;
  const bool began = failed == 0 && poll(&begun, 1, kBeginsWithin) == 1 &&
                     read(told[0], &byte, sizeof byte) == sizeof byte;
  close(told[0]);
  if (!began) throw nsa::Error("fault: the other process did not begin to use the card");
}

void install_other_process(FaultContext& context) {
  if (!context.model->parameters().front().is_cuda()) {
    throw nsa::Error("fault: found 'gpu_stolen', wanted a scenario whose parallel.device is cuda");
  }
  start_other_process(context.session.the_case().scenario.card_of(context.rank));
  context.fired();
}

// A rank of another host, say, onto which the new build was never copied.
void say_other_sources(Hello& hello, Session& session) {
  const WorkerOptions& options = session.options();
  const FaultRequest& request = *session.the_case().scenario.fault;
  if (!fault_on_one_rank(request, options.rank, options.world)) return;
  hello.source_hash.assign(hello.source_hash.rbegin(), hello.source_hash.rend());
  Fired fired(session.channel());
  fired();
}

}  // namespace

void occupy_card([[maybe_unused]] int card) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef NSA_CUDA
  constexpr std::int64_t kCycles = 40'000'000;  // 20 ms at 2 GHz
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(card));
  c10::cuda::set_device(device.index());
  const torch::Tensor held =
      torch::zeros({std::int64_t{1} << 30U}, torch::dtype(torch::kByte).device(device));
  bool told = false;
  while (true) {
    at::cuda::sleep(kCycles);
    c10::cuda::device_synchronize();
    if (!told) told = write(STDOUT_FILENO, "+", 1) == 1;
  }
#endif
  _exit(1);
}

Faults faults_of_machines() {
  Fault stale{"stale_build",
              "a rank runs a program that was built from other sources",
              {"rank"},
              [](FaultContext& /*context*/) {}};
  stale.in_hello = say_other_sources;
  return {stale,
          {"gpu_stolen",
           "another process computes on the card while times are taken",
           {},
           install_other_process}};
}

}  // namespace harness
