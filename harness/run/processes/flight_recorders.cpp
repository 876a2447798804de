#include "harness/run/processes/flight_recorders.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/foreign/flight_dump.h"
#include "harness/run/processes/spawn_process.h"
#include "harness/run/processes/users_torch.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

// PyTorch looks at its pipe once a second, and then writes some hundred kilobytes.
constexpr std::int64_t kDumpMs = 4'000;
constexpr std::int64_t kAfterwardsMs = 1'000;  // what is printed on the way comes late
constexpr std::int64_t kShortestApartMs = 2'000;
constexpr std::int64_t kLongestApartMs = 8'000;  // while dumps show that the command moves
constexpr std::int64_t kStalledApartMs =
    4'000;  // of ranks that seem stalled: their steps may just be long
constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
constexpr const char* kDump = "/rank_";
constexpr const char* kPipe = "/ask_rank_";

bool says(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& one) {
    return one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=';
  });
}

// A pipe that PyTorch could not make would end the rank: not every file system has them.
bool can_hold_pipes(const std::string& folder) {
  const std::string path = folder + "/try";
  const bool made = mkfifo(path.c_str(), 0600) == 0;
  if (made) unlink(path.c_str());
  return made;
}

}  // namespace

FlightRecorders::FlightRecorders(const std::string& case_folder) {
  std::error_code error;
  const std::string folder = std::filesystem::absolute(case_folder, error).string() + "/flight";
  if (!error) std::filesystem::create_directories(folder, error);
  if (!error && can_hold_pipes(folder)) folder_ = folder;
}

std::vector<std::string> FlightRecorders::variables(const std::vector<std::string>& environment,
                                                    const std::string& torch) {
  struct Variable {
    const char* name;
    std::string value;
  };
  // By old and new names: before 2.11 the pipe of torch asks for the older name of the size alone.
  const std::array places = {Variable{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", folder_ + kDump},
                             Variable{"TORCH_FR_DUMP_TEMP_FILE", folder_ + kDump},
                             Variable{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", folder_ + kPipe}};
  std::vector<Variable> sizes = {Variable{"TORCH_FR_BUFFER_SIZE", "2000"},
                                 Variable{"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"}};
  const auto said = [&](const Variable& one) { return says(environment, one.name); };
  if (std::any_of(places.begin(), places.end(), said)) folder_.clear();
  std::vector<std::string> added;
  if (folder_.empty()) return added;
  for (const Variable& one : places) added.push_back(one.name + ("=" + one.value));
  if (std::none_of(sizes.begin(), sizes.end(), said)) {
    if (is_at_least(torch, 2, 11)) sizes.pop_back();
    for (const Variable& one : sizes) added.push_back(one.name + ("=" + one.value));
  }
  const Variable on_timeout{"TORCH_NCCL_DUMP_ON_TIMEOUT", "1"};
  if (!said(on_timeout)) added.push_back(on_timeout.name + ("=" + on_timeout.value));
  return added;
}

std::string FlightRecorders::file_of(int rank) const {
  return folder_ + kDump + std::to_string(rank);
}

FlightRecorders::Stamp FlightRecorders::stamp_of(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return {};
  return {file.st_mtim.tv_sec * 1'000'000'000 + file.st_mtim.tv_nsec, file.st_size};
}

void FlightRecorders::ask(const std::set<int>& ranks, std::int64_t now_ms) {
  asked_ms_ = now_ms;
  awaited_.clear();
  answered_.clear();
  for (const int rank : ranks) {
    const std::string pipe = folder_ + kPipe + std::to_string(rank) + ".pipe";
    const Fd fd(open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd.is_open() && write(fd.get(), "1\n", 2) == 2) awaited_.insert(rank);
  }
}

// A file that is still being written cannot be read, and is read again later: unread() tells of what stays so.
bool FlightRecorders::read_one(int rank) {
  const std::string path = file_of(rank);
  const Stamp stamp = stamp_of(path);
  const auto read = read_.find(rank);
  if (stamp == Stamp{} || (read != read_.end() && read->second == stamp)) return false;
  try {
    FlightDump dump = read_flight_dump(nsa::read_file(path, kMaxBytes));
    if (const auto at = after_.find(rank); at != after_.end()) before_[rank] = at->second;
    after_[rank] = std::move(dump);
    read_[rank] = stamp;
    unread_.erase(rank);
    return true;
  } catch (const nsa::Error& error) {
    unread_[rank] = error.what();
    return false;
  }
}

void FlightRecorders::end_round(const std::set<int>& live,
                                const std::set<int>& all,
                                std::int64_t now_ms) {
  awaited_.clear();
  held_ = held_by_peers(before_, after_, all);
  std::erase_if(held_, [&](int rank) { return !live.contains(rank); });
  departed_ = flight_departure(after_).has_value();
  // Who waits in this dump may be held; whether it is, the next one tells. Where it was not, there is no hurry the next time.
  waiting_ = held_by_peers(after_, after_, all);
  hurried_ = !waiting_.empty() && !hurried_ && held_.empty();
  std::erase_if(waiting_, [&](int rank) { return !departed_ || !answered_.contains(rank); });
  waiting_.insert(held_.begin(), held_.end());
  if (!held_.empty()) apart_ms_ = 0;
  apart_ms_ = std::clamp(2 * apart_ms_, kShortestApartMs, kLongestApartMs);
  answered_ms_ = now_ms;
  // PyTorch looks at its pipe once a second, so that two answers lie apart as it is.
  const std::int64_t hurried_ms = departed_ ? 0 : kShortestApartMs;
  next_ms_ = now_ms + (hurried_ ? hurried_ms : apart_ms_);
  // Nothing is left to be learnt, and an answer that is half written would be lost when the ranks are ended.
  if (departed_ && held_ == live) next_ms_ = next_stalled_ms_ = now_ms + kLongestApartMs;
}

bool FlightRecorders::is_due(Wanted wanted, std::int64_t now_ms) {
  if (wanted == Wanted::no) return false;
  if (now_ms >= next_ms_) return true;
  if (wanted != Wanted::stalled || now_ms < next_stalled_ms_) return false;
  next_stalled_ms_ = now_ms + kStalledApartMs;
  return true;
}

// What was seen before says nothing of the next silence.
void FlightRecorders::forget() {
  held_.clear();
  waiting_.clear();
  departed_ = false;
  before_.clear();
  after_.clear();
  hurried_ = false;
  apart_ms_ = 0;
  next_ms_ = 0;
}

void FlightRecorders::forget(const std::set<int>& ranks) {
  forget();
  awaited_.clear();
  answered_.clear();
  unread_.clear();
  for (const int rank : ranks) read_[rank] = stamp_of(file_of(rank));
}

bool FlightRecorders::step(const std::set<int>& live,
                           const std::set<int>& all,
                           Wanted wanted,
                           std::int64_t now_ms) {
  if (folder_.empty()) return false;
  if (awaited_.empty()) {
    if (wanted == Wanted::no) forget();
    if (is_due(wanted, now_ms)) ask(live, now_ms);
    if (awaited_.empty()) return false;
  }
  for (const int rank : awaited_) {
    if (read_one(rank)) answered_.insert(rank);
  }
  std::erase_if(awaited_,
                [&](int rank) { return !live.contains(rank) || answered_.contains(rank); });
  if (!awaited_.empty() && now_ms - asked_ms_ < kDumpMs) return false;
  end_round(live, all, now_ms);
  return true;
}

bool FlightRecorders::asked_lately(std::int64_t now_ms) const {
  return !awaited_.empty() || (answered_ms_ >= 0 && now_ms - answered_ms_ < kAfterwardsMs);
}

void FlightRecorders::ask_at_last(const std::set<int>& ranks, std::int64_t now_ms) {
  if (!folder_.empty()) ask(ranks, now_ms);
}

std::vector<FlightDumps> FlightRecorders::newest(const std::set<int>& ranks) {
  if (folder_.empty()) return {};
  for (const int rank : ranks) read_one(rank);
  return {before_, after_};
}

}  // namespace harness
