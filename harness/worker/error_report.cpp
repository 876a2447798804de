#include "harness/worker/error_report.h"

#include <cstdlib>
#include <string_view>

#include <c10/util/Exception.h>
#include <torch/version.h>

#include "harness/evidence/raised.h"
#include "harness/worker/thrown.h"
#include "harness/worker/watch/seam_watch.h"
#include "nsa/seams/refused.h"

namespace harness {
namespace {

// The number that the device's runtime gave; 0 where the exception holds none.
std::int64_t device_code_of(const std::exception& error) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
  if (const auto* of_device = dynamic_cast<const c10::AcceleratorError*>(&error)) {
    return of_device->get_error_code();
  }
#endif
  static_cast<void>(error);
  return 0;
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
  } catch (const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    report.what = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    report.bases = types_of(error);
    report.type = report.bases.front();
    report.bases.erase(report.bases.begin());
    report.frames = frames_of(error);
    report.device_code = device_code_of(error);
  } catch (...) {
    report.type = "unknown";
    report.what = "an exception that is no std::exception";
  }
  return report;
}

std::optional<Fact> seam_to_blame(const WorkerError& error) {
  const SeamPlace place = SeamWatch::threw();
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  const bool waited = blocking != nullptr && std::string_view(blocking) == "1";
  const bool late = raised_as(error).failure == Failure::device;
  if (place.seam.empty() || (late && !waited)) return std::nullopt;
  return Fact{"raised_in", nlohmann::json::array({place.seam, place.layer}).dump()};
}

}  // namespace harness
