#include "harness/run/processes/watched_process.h"

#include <array>
#include <cerrno>
#include <unistd.h>

#include "harness/run/processes/process_end.h"

namespace harness {
namespace {

constexpr int kReadsOfAPipe =
    16;  // of 64 KiB: a flooding rank must not keep the others from being read

}  // namespace

LocalProcess::LocalProcess(const ProcessRequest& request)
    : process_(Process::spawn(request)), lines_(kMaxEventBytes) {}

void LocalProcess::add_to(std::vector<pollfd>& waited) const {
  if (!process_.reaped()) waited.push_back({process_.pidfd(), POLLIN, 0});
  if (process_.events() >= 0) waited.push_back({process_.events(), POLLIN, 0});
}

void LocalProcess::read(const LineReader::OnLine& on_line, const OnLook& /*comes at once*/) {
  std::array<char, 1 << 16> buffer;  // NOLINT: filled by read()
  for (int i = 0; i < kReadsOfAPipe && process_.events() >= 0; ++i) {
    const ssize_t n = ::read(process_.events(), buffer.data(), buffer.size());
    if (n > 0) {
      lines_.feed({buffer.data(), static_cast<std::size_t>(n)}, on_line);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      lines_.finish(on_line);
      process_.close_events();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

const std::optional<ExitStatus>& LocalProcess::end() {
  if (!end_ && process_.exited()) end_ = process_.reap();
  return end_;
}

bool LocalProcess::silent() const {
  return process_.events() < 0 && process_.group_gone();
}

std::int64_t LocalProcess::peak_resident_bytes() const {
  return end_ ? end_->rss_peak_bytes : peak_resident_bytes_of(process_.pid());
}

FoundProcess::FoundProcess(pid_t pid) : pid_(pid), pidfd_(watch_end(pid)) {}

void FoundProcess::add_to(std::vector<pollfd>& waited) const {
  if (pidfd_.is_open()) waited.push_back({pidfd_.get(), POLLIN, 0});
}

bool FoundProcess::has_ended() const {
  return harness::has_ended(pidfd_);
}

const std::optional<ExitStatus>& FoundProcess::end() {
  if (!end_ && pidfd_.is_open() && has_ended()) end_ = end_of_stranger(pid_, pidfd_.get());
  return end_;
}

std::int64_t FoundProcess::peak_resident_bytes() const {
  return pidfd_.is_open() ? peak_resident_bytes_of(pid_) : 0;
}

}  // namespace harness
