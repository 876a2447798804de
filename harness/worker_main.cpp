// The worker: one rank, or the twin, of one case. Started by the controller, or by an agent of it, only (or asked for its manifest
// by the build).
//   nsa-harness-worker --case FILE --rank R|--twin --world N --port P [--listen-fd F] [--store ADDRESS] [--address ADDRESS]
//     --folder DIR --clock-origin-ms M [--life L]
//   nsa-harness-worker --golden FILE --out FILE
//   nsa-harness-worker --operator FILE
//   nsa-harness-worker --manifest | --version
//   nsa-harness-worker --occupy CARD (another process on the card; what a fault starts)
// Exit: 0 did all it was asked; 1 an exception ended it (reported on fd 3); 3 wrong arguments; 74 could not record.
#include <csignal>
#include <iostream>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

#include <c10/util/Exception.h>
#ifdef NSA_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif
#ifdef USE_C10D_NCCL
#include <nccl.h>
#endif

#include <torch/version.h>

#include "harness/faults/device/machines.h"
#include "harness/faults/list.h"
#include "harness/kinds/list.h"
#include "harness/kinds/model_parts.h"
#include "harness/run/build_info.h"
#include "harness/scenario/manifest.h"
#include "harness/worker/error_report.h"
#include "harness/worker/golden_run.h"
#include "harness/worker/record/operator_call.h"
#include "harness/worker/stacks.h"
#include "harness/worker/uncaught.h"
#include "harness/worker/vector_math.h"
#include "harness/worker/watch/gpu_sensors.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace {

using harness::Session;
using harness::WorkerOptions;

constexpr int kExitError = 1;
constexpr int kExitUsage = 3;

harness::Manifest manifest() {
  harness::Manifest manifest;
  manifest.source_hash = harness::built_source_hash();
  manifest.torch_version = TORCH_VERSION;
#ifdef NSA_CUDA
  manifest.cuda_version =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
#endif
#ifdef USE_C10D_NCCL
  manifest.nccl_version = std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + "." +
                          std::to_string(NCCL_PATCH);
#endif
  for (const auto& kind : harness::all_kinds()) {
    manifest.kinds.push_back(kind.name);
  }
  manifest.seams = nsa::seam_implementations();
  for (const auto& fault : harness::all_faults()) {
    manifest.faults.push_back(
        {fault.name, fault.about, fault.uses, fault.forms, fault.needs_layer_above});
  }
  return manifest;
}

int to_int(const std::string& text) {
  std::size_t used = 0;
  const int value = std::stoi(text, &used);
  if (used != text.size()) {
    throw std::invalid_argument(text);
  }
  return value;
}

WorkerOptions parse_options(int argc, char** argv) {
  WorkerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--twin") {
      options.rank = harness::kTwin;
      continue;
    }
    if (i + 1 == argc) {
      throw nsa::Error("nsa-harness-worker: " + name + ": no value");
    }
    const std::string value = argv[++i];
    if (name == "--case") {
      options.case_file = value;
    } else if (name == "--folder") {
      options.folder = value;
    } else if (name == "--rank") {
      options.rank = to_int(value);
    } else if (name == "--world") {
      options.world = to_int(value);
    } else if (name == "--port") {
      options.port = to_int(value);
    } else if (name == "--listen-fd") {
      options.listen_fd = to_int(value);
    } else if (name == "--store") {
      options.store = value;
    } else if (name == "--address") {
      options.address = value;
    } else if (name == "--life") {
      options.life = to_int(value);
    } else if (name == "--clock-origin-ms") {
      options.clock_origin_ms = std::stoll(value);
    } else {
      throw nsa::Error("nsa-harness-worker: unknown option " + name);
    }
  }
  return options;
}

harness::Case read_case(const std::string& path) {
  constexpr std::int64_t kMostBytes = 16 << 20;
  return harness::case_from_json(nsa::read_file(path, kMostBytes), path);
}

// "cpu", or the card's name. A card that cannot be asked is told by the kind, which wants to use it: with where and why.
std::string device_name(const Session& session) {
  const nsa::Device device = session.the_case().scenario.parallel.device;
#ifdef NSA_CUDA
  if (device == nsa::Device::cuda) {
    try {
      return at::cuda::getDeviceProperties(harness::device_of(session).index())->name;
    } catch (const std::exception&) {
      return nsa::name_of(device);
    }
  }
#endif
  return nsa::name_of(device);
}

void say_hello(Session& session) {
  const auto& parallel = session.the_case().scenario.parallel;
  harness::Hello hello;
  hello.pid = getpid();
  hello.source_hash = harness::built_source_hash();
  hello.torch_version = TORCH_VERSION;
  hello.device = device_name(session);
  hello.backend = session.is_twin() ? "none" : parallel.effective_backend();
  hello.threads = at::get_num_threads();
  if (session.fault() != nullptr && session.fault()->in_hello != nullptr) {
    session.fault()->in_hello(hello, session);
  }
  session.channel().write(hello);
}

// Null for a card that cannot be asked: the kind, which wants to use it, tells where and why.
std::unique_ptr<harness::GpuSensors> sensors_of(const Session& session) {
  try {
    return std::make_unique<harness::GpuSensors>(harness::device_of(session));
  } catch (const std::exception&) {
    return nullptr;
  }
}

const harness::Kind& kind_named(const std::string& name) {
  for (const auto& kind : harness::all_kinds()) {
    if (kind.name == name) {
      return kind;
    }
  }
  throw nsa::Error("kind: found '" + name + "', which this worker does not have");
}

// Never returns: a process group whose peer is gone cannot be destroyed without waiting for it.
[[noreturn]] void run(const WorkerOptions& options) {
  harness::Channel channel(harness::kEventFd, options.rank, options.clock_origin_ms);
  harness::Progress progress;
  const harness::TellUncaught uncaught(channel, progress);
  int code = 0;
  {
    harness::HeartbeatThread heartbeat(channel, progress);
    try {
      Session session(options, read_case(options.case_file), channel, progress, heartbeat);
      at::set_num_interop_threads(1);
      harness::prepare_vector_math();
      if (session.the_case().scenario.fault && !session.is_twin()) {
        session.set_fault(&harness::fault_named(session.the_case().scenario.fault->name));
      }
      say_hello(session);
      if (session.observe() >= harness::kWatchEvents) {
        channel.write(harness::Fact{"operators_counted_by", progress.watch_operators()});
      }
      const auto sensors = sensors_of(session);
      const harness::DeviceLoad load(heartbeat,
                                     [&sensors] { return sensors ? sensors->busy_percent() : -1; });
      kind_named(session.the_case().scenario.kind).run(session);
      session.enter("done", progress.step());
      channel.write(progress.heartbeat());
    } catch (...) {
      if (const auto refusal = harness::refusal_in_current_exception()) {
        channel.write(*refusal);
      }
      const harness::WorkerError error =
          harness::describe_current_exception(progress.phase(), progress.step());
      if (const auto seam = harness::seam_to_blame(error)) channel.write(*seam);
      channel.write(error);
      code = kExitError;
    }
    if (code != 0) {
      _exit(code);
    }
  }
  channel.write(harness::Done{});
  std::cout.flush();
  _exit(code);
}

// The last line of stderr is why, for whoever started it.
int golden(const std::string& file, const std::string& out) {
  try {
    harness::prepare_vector_math();
    harness::run_golden(file, out);
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return kExitError;
}

// One operator of a bundle, alone. What is printed is the answer, or why there is none.
int print_operator(const std::string& file) {
  try {
    harness::run_operator_file(file);
    return 0;
  } catch (const c10::Error& error) {
    std::cout << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cout << error.what() << "\n";
  }
  return kExitError;
}

// Ends with the controller, also when that died before the request was made: then nobody reads the event pipe any more.
void die_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd events{harness::kEventFd, 0, 0};
  if (poll(&events, 1, 0) > 0 && (events.revents & (POLLERR | POLLNVAL)) != 0) {
    _exit(kExitError);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--manifest") {
    std::cout << harness::manifest_text(manifest()) << "\n";
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "--version") {
    std::cout << "nsa-harness-worker " << harness::built_source_hash() << ", LibTorch "
              << TORCH_VERSION << "\n";
    return 0;
  }
  if (argc == 3 && std::string(argv[1]) == "--operator") return print_operator(argv[2]);
  if (argc == 3 && std::string(argv[1]) == "--occupy") harness::occupy_card(to_int(argv[2]));
  die_with_parent();
  if (argc == 5 && std::string(argv[1]) == "--golden" && std::string(argv[3]) == "--out") {
    return golden(argv[2], argv[4]);
  }
  harness::block_stack_request();
  harness::prepare_stacks();
  try {
    run(parse_options(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return kExitUsage;
  }
}
