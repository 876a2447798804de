#include "harness/cli/golden/model.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <poll.h>

#include "harness/cli/signals.h"
#include "harness/run/processes/spawn_process.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/safetensors.h"
#include "nsa/base/temporary_folder.h"
#include "nsa/base/text.h"

namespace harness::cli::golden {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kStartSeconds = 120.0;   // LibTorch is read from a cold disk
constexpr double kTimesTheOracle = 20.0;  // the model is faster, but may share the machine
constexpr int kRoundMs = 100;  // a signal that comes just before poll() is noticed after this long

// While there is something to clean up, signals are noticed instead of ending the program.
class NoticedSignals {
 public:
  NoticedSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], nullptr, &before_[i]);
    catch_signals();
  }
  ~NoticedSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &before_[i], nullptr);
  }
  NoticedSignals(const NoticedSignals&) = delete;
  NoticedSignals& operator=(const NoticedSignals&) = delete;

 private:
  static constexpr std::array kNumbers = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kNumbers.size()> before_{};
};

// Its last line that is not empty, bounded.
std::string last_words(const std::string& path) {
  constexpr std::int64_t kMaxBytes = 1 << 20;
  constexpr std::size_t kMaxWords = 500;
  std::string text;
  try {
    text = nsa::read_file(path, kMaxBytes);
  } catch (const nsa::Error&) {
    return "";
  }
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const std::size_t start = text.rfind('\n', end);
  return ": " +
         text.substr(start == std::string::npos ? 0 : start + 1, end - start).substr(0, kMaxWords);
}

std::string ending_text(const ExitStatus& status) {
  return status.signal != 0 ? "was ended by signal " + std::to_string(status.signal)
                            : "ended with " + std::to_string(status.exit_code);
}

void wait_for(Process& process, double seconds, const std::string& err_path) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (!process.exited()) {
    if (interrupted() != 0) throw Interrupted();
    if (Clock::now() >= deadline) {
      throw WorkerFailure("the worker did not answer in " + nsa::to_text(seconds, 3) + " s");
    }
    pollfd ended = {process.pidfd(), POLLIN, 0};
    (void)poll(&ended, 1, kRoundMs);
  }
  const ExitStatus status = process.reap();
  if (status.exit_code != 0) {
    throw WorkerFailure("the worker " + ending_text(status) + last_words(err_path));
  }
}

const nsa::TensorView& view_of(const nsa::SafetensorsFile& file,
                               const std::string& name,
                               const oracles::Shape& shape) {
  const nsa::TensorView& view = file.at(name);
  const nsa::DType dtype = name == "blocks" ? nsa::DType::i64 : nsa::DType::f64;
  if (view.dtype != dtype || view.shape != shape) {
    throw nsa::Error(nsa::Location{view.where},
                     "found " + std::string(nsa::dtype_name(view.dtype)) +
                         nsa::shape_text(view.shape) + ", wanted " +
                         std::string(nsa::dtype_name(dtype)) + nsa::shape_text(shape));
  }
  return view;
}

Wanted read_results(const Case& the_case, const std::string& path) {
  const nsa::SafetensorsFile file(path);
  Wanted results;
  for (const std::string& name : the_case.results) {
    const oracles::Shape& shape =
        name == "blocks" ? the_case.blocks->shape : the_case.found.at(name).shape;
    const nsa::TensorView& view = view_of(file, name, shape);
    if (name == "blocks") {
      results.blocks = oracles::IntTensor{shape, nsa::to_int64s(view)};
    } else {
      results.tensors[name] = {shape, nsa::to_doubles(view)};
    }
  }
  return results;
}

}  // namespace

Wanted model_results(const Case& the_case, const Worker& worker, double oracle_seconds) {
  const NoticedSignals noticed;
  const nsa::TemporaryFolder folder;
  const std::string out = folder / "results.safetensors";
  ProcessRequest request;
  request.argv = {worker.path, "--golden", fs::absolute(the_case.path).string(), "--out", out};
  request.environment = worker.environment;
  request.out_path = folder / "stdout";
  request.err_path = folder / "stderr";
  Process process = Process::spawn(request);
  wait_for(process, kStartSeconds + kTimesTheOracle * oracle_seconds, request.err_path);
  try {
    return read_results(the_case, out);
  } catch (const nsa::Error& error) {
    throw WorkerFailure(std::string("the worker's results cannot be used: ") + error.what());
  }
}

}  // namespace harness::cli::golden
