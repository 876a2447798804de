#include "harness/evidence/raised.h"

#include <algorithm>
#include <array>
#include <optional>

namespace harness {
namespace {

// cudaErrorMemoryAllocation, and hipErrorOutOfMemory too.
constexpr std::int64_t kDeviceHasNoMemory = 2;

struct Telling {
  Failure failure;
  std::string_view text;
};

// Types, or namespaces of types, that are raised for one reason only.
constexpr std::array kTypes = {Telling{Failure::host_memory, "std::bad_alloc"},
                               Telling{Failure::device_memory, "c10::OutOfMemoryError"},
                               Telling{Failure::device, "c10::AcceleratorError"},
                               Telling{Failure::device, "c10::CUDAError"},
                               Telling{Failure::communication, "c10::Dist"},
                               Telling{Failure::communication, "gloo::"},
                               // The same as Python names them.
                               Telling{Failure::host_memory, "MemoryError"},
                               Telling{Failure::device_memory, "torch.OutOfMemoryError"},
                               Telling{Failure::device_memory, "torch.cuda.OutOfMemoryError"},
                               Telling{Failure::device, "torch.AcceleratorError"},
                               Telling{Failure::communication, "torch.distributed.Dist"}};

constexpr std::string_view kReducer = "c10d::Reducer::";

constexpr std::array kWords = {
    Telling{Failure::device_memory, "CUDA out of memory"},
    Telling{Failure::device_memory, "HIP out of memory"},
    Telling{Failure::host_memory, "can't allocate memory"},
    Telling{Failure::host_memory, "not enough memory"},
    Telling{Failure::device, "CUDA error"},
    Telling{Failure::device, "cudaError"},
    Telling{Failure::reducer, "Expected to have finished reduction in the prior iteration"},
    Telling{Failure::reducer, "Expected to mark a variable ready only once"},
    Telling{Failure::reducer, "marked as ready twice"},
    Telling{Failure::reducer, "your training graph has changed in this iteration"},
    Telling{Failure::communication, "Connection closed by peer"},
    Telling{Failure::communication, "Connection reset by peer"},
    Telling{Failure::communication, "Connection refused"},
    Telling{Failure::communication, "Broken pipe"},
    Telling{Failure::communication, "Timed out waiting"},
    Telling{Failure::communication, "gloo/transport"},
    Telling{Failure::communication, "NCCL error"},
    Telling{Failure::communication, "ncclRemoteError"},
    Telling{Failure::communication, "Read error"},
    Telling{Failure::communication, "Write error"},
    Telling{Failure::communication, "recvValue"},
    Telling{Failure::communication, "sendBytes failed"}};

// `type`: how the type begins; "": any. `text`: in the message.
struct CommonEnd {
  const char* variant;
  std::string_view type;
  std::string_view text;
};
constexpr std::array kCommonEnds = {
    CommonEnd{"raised.port_in_use", "", "EADDRINUSE"},
    CommonEnd{"raised.port_in_use", "", "Address already in use"},
    CommonEnd{"raised.module_missing", "ModuleNotFoundError", ""},
    CommonEnd{"raised.worker_shm", "", "insufficient shared memory (shm)"},
    CommonEnd{"raised.worker_shm", "RuntimeError", "is killed by signal: Bus error"},
    CommonEnd{"raised.worker_killed", "RuntimeError", "is killed by signal: Killed"},
    CommonEnd{"raised.worker_killed", "RuntimeError", ") exited unexpectedly"},
    CommonEnd{"raised.disk_full", "", "No space left on device"},
    CommonEnd{"raised.permission", "PermissionError", ""},
    CommonEnd{"raised.file_missing", "FileNotFoundError", ""},
    CommonEnd{"raised.ranks_missing", "", "clients joined"},
    CommonEnd{"raised.address", "", "gaierror"},
    CommonEnd{"raised.address", "socket.gaierror", ""},
    CommonEnd{"raised.address", "", "Name or service not known"},
    CommonEnd{"raised.address", "", "Temporary failure in name resolution"},
    CommonEnd{"raised.driver", "", "CUDA driver version is insufficient"},
    CommonEnd{"raised.driver", "", "no kernel image is available"},
    CommonEnd{"raised.driver", "", "The NVIDIA driver on your system is too old"}};

// The watchdog of a process group hands on what it met, with a type of communication.
constexpr std::string_view kWatchdogMet = "watchdog thread terminated with exception: CUDA error";

// Functions that raise what another one found.
constexpr std::array<std::string_view, 6> kHelpers = {"__cxa_",
                                                      "c10::detail::torch",
                                                      "c10::Error::",
                                                      "c10::cuda::c10_cuda_check",
                                                      "std::__throw_",
                                                      "operator new"};

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// Frames are "function+0x1c (library)", or "library+0x5a1c" where the function has no name.
std::string without_offset(const std::string& frame) {
  const std::size_t plus = frame.rfind("+0x");
  if (plus == std::string::npos) return frame;
  const std::size_t end = frame.find(' ', plus);
  return frame.substr(0, plus) + (end == std::string::npos ? "" : frame.substr(end));
}

const std::string* raising_frame(const WorkerError& error) {
  for (const std::string& frame : error.frames) {
    const bool helper = std::any_of(
        kHelpers.begin(), kHelpers.end(), [&](auto name) { return begins(frame, name); });
    if (!helper) return &frame;
  }
  return nullptr;
}

std::optional<Failure> by_type(const WorkerError& error) {
  const auto told_by = [](const std::string& type) -> std::optional<Failure> {
    for (const auto& [failure, text] : kTypes) {
      if (begins(type, text)) return failure;
    }
    return std::nullopt;
  };
  if (const auto failure = told_by(error.type)) return failure;
  for (const std::string& base : error.bases) {
    if (const auto failure = told_by(base)) return failure;
  }
  return std::nullopt;
}

// A Python file of PyTorch: what its functions raise comes from below, where no frame is.
constexpr std::string_view kInTorch = " (torch/";

// The harness and the model are the program itself: what they raise with a type of no such reason is their own, whatever it says.
bool raised_by_the_program(const WorkerError& error) {
  const std::string* frame = raising_frame(error);
  if (frame == nullptr) return false;
  const std::string place = frame->substr(0, frame->find("): "));  // without the text of the line
  return place.find(".so") == std::string::npos && place.find(kInTorch) == std::string::npos;
}

}  // namespace

Raised raised_as(const WorkerError& error) {
  if (error.device_code != 0) {
    const bool memory = error.device_code == kDeviceHasNoMemory;
    return {memory ? Failure::device_memory : Failure::device, ToldBy::device_code, ""};
  }
  if (const auto failure = by_type(error)) {
    const bool handed_on =
        *failure == Failure::communication && error.what.find(kWatchdogMet) != std::string::npos;
    if (!handed_on) return {*failure, ToldBy::type, ""};
    return {Failure::device, ToldBy::words, std::string(kWatchdogMet)};
  }
  if (raised_by_function(error, kReducer)) return {Failure::reducer, ToldBy::origin, ""};
  if (raised_by_the_program(error)) return {Failure::own, ToldBy::origin, ""};
  for (const auto& [failure, words] : kWords) {
    if (error.what.find(words) != std::string::npos) {
      return {failure, ToldBy::words, std::string(words)};
    }
  }
  return {};
}

std::string common_end(const WorkerError& error) {
  for (const auto& [variant, type, text] : kCommonEnds) {
    if (begins(error.type, type) && error.what.find(text) != std::string::npos) return variant;
  }
  return "";
}

std::string raised_by(const WorkerError& error) {
  const std::string* frame = raising_frame(error);
  return frame == nullptr ? "" : without_offset(*frame);
}

bool raised_by_function(const WorkerError& error, std::string_view begin) {
  const std::string* frame = raising_frame(error);
  return frame != nullptr && begins(*frame, begin);
}

const char* name_of(ToldBy value) {
  switch (value) {
    case ToldBy::nothing: return "nothing";
    case ToldBy::type: return "type";
    case ToldBy::device_code: return "number of the device's runtime";
    case ToldBy::origin: return "function that raised it";
    case ToldBy::words: return "words of the message";
  }
  return "";
}

}  // namespace harness
