#include "harness/worker/session.h"

#include <filesystem>
#include <utility>

#include "nsa/base/error.h"

namespace harness {

Session::Session(WorkerOptions options,
                 Case the_case,
                 Channel& channel,
                 Progress& progress,
                 HeartbeatThread& heartbeat)
    : options_(std::move(options)),
      case_(std::move(the_case)),
      channel_(channel),
      progress_(progress),
      heartbeat_(heartbeat) {}

int Session::observe() const {
  return is_twin() ? kWatchValues : case_.scenario.observe;
}

bool Session::wants_check(const std::string& name) const {
  return observe() == kWatchValues && case_.scenario.has_check(name);
}

void Session::enter(const std::string& phase, std::int64_t step) {
  progress_.enter(phase, step);
  channel_.write(Phase{phase, step});
  for (const auto& listener : listeners_) {
    listener(phase, step);
  }
}

void Session::on_phase(std::function<void(const std::string& phase, std::int64_t step)> listener) {
  listeners_.push_back(std::move(listener));
}

void Session::sample(const std::string& metric, std::int64_t step, double value) {
  channel_.write(Sample{metric, step, value});
}

std::string Session::folder_of(std::int64_t step, int of_rank) const {
  const std::string who =
      is_twin() ? "twin_of_" + std::to_string(of_rank) : "rank_" + std::to_string(options_.rank);
  const std::string folder = who + "/step_" + std::to_string(step);
  std::error_code error;
  std::filesystem::create_directories(options_.folder + "/" + folder, error);
  if (error) {
    throw nsa::Error(options_.folder + "/" + folder +
                     ": cannot create the folder: " + error.message());
  }
  return folder;
}

void CollectiveRecorder::enqueued(const nsa::CollectiveInfo& info) {
  channel_.write(Collective{info.sequence,
                            progress_.step(),
                            progress_.phase(),
                            info.op,
                            info.reduce_op,
                            info.dtype,
                            info.count,
                            info.group,
                            progress_.micro()});
  progress_.collective_enqueued();
}

void CollectiveRecorder::completed(std::int64_t sequence, const std::string& group) {
  progress_.collective_completed();
  channel_.write(CollectiveDone{sequence, group});
}

}  // namespace harness
