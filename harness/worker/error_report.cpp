#include "harness/worker/error_report.h"

#include <array>
#include <cstdlib>
#include <cxxabi.h>
#include <new>
#include <string_view>
#include <typeinfo>

#include <c10/util/Exception.h>

#include "harness/worker/seam_watch.h"
#include "nsa/seams/refused.h"

namespace harness {
namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

// Gloo's and the store's errors reach us as plain runtime errors: only their words tell that a peer is gone.
bool is_communication(const std::exception& error, std::string_view what) {
  return dynamic_cast<const c10::DistError*>(&error) != nullptr ||
         contains_any(what,
                      {"Connection closed by peer",
                       "Connection reset by peer",
                       "Connection refused",
                       "Broken pipe",
                       "Timed out waiting",
                       "gloo/transport",
                       "NCCL error",
                       "ncclRemoteError",
                       "Read error",
                       "Write error",
                       "recvValue",
                       "sendBytes failed"});
}

bool is_reducer(std::string_view what) {
  return contains_any(what,
                      {"Expected to have finished reduction in the prior iteration",
                       "Expected to mark a variable ready only once",
                       "marked as ready twice",
                       "your training graph has changed in this iteration"});
}

std::string type_name(const std::exception& error) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
  std::string name = status == 0 && demangled != nullptr ? demangled : typeid(error).name();
  std::free(demangled);  // NOLINT(cppcoreguidelines-no-malloc)
  return name;
}

}  // namespace

std::optional<Refusal> refusal_in_current_exception() {
  try {
    throw;
  } catch (const nsa::Refused& refused) {
    return Refusal{refused.seam, refused.layer, refused.implementation, refused.reason};
  } catch (...) {
    return std::nullopt;
  }
}

WorkerError describe_current_exception(const std::string& phase, std::int64_t step) {
  WorkerError report;
  report.phase = phase;
  report.step = step;
  try {
    throw;
  } catch (const c10::Error& error) {
    report.type = type_name(error);
    report.what = error.what_without_backtrace();
    report.communication = is_communication(error, report.what);
    report.out_of_memory =
        dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
        contains_any(report.what, {"not enough memory", "can't allocate memory"});
  } catch (const std::bad_alloc& error) {
    report.type = type_name(error);
    report.what = error.what();
    report.out_of_memory = true;
  } catch (const std::exception& error) {
    report.type = type_name(error);
    report.what = error.what();
    report.communication = is_communication(error, report.what);
  } catch (...) {
    report.type = "unknown";
    report.what = "an exception that is no std::exception";
  }
  report.reducer = is_reducer(report.what);
  return report;
}

std::optional<Fact> seam_to_blame(const WorkerError& error) {
  const SeamPlace place = SeamWatch::threw();
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  const bool waited = blocking != nullptr && std::string_view(blocking) == "1";
  const bool late = !error.out_of_memory && contains_any(error.what, {"CUDA error", "cudaError"});
  if (place.seam.empty() || (late && !waited)) return std::nullopt;
  return Fact{"raised_in", nlohmann::json::array({place.seam, place.layer}).dump()};
}

}  // namespace harness
