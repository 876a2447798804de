#include "harness/run/processes/callers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "nsa/base/error.h"

namespace harness {
namespace {

constexpr int kReadsOfACaller =
    16;  // of 64 KiB a round, so that a flooding rank does not keep the others waiting
// A launcher takes note of an end as seldom as every tenth of a second: how its ranks ended must be read before.
constexpr int kLongestMs = 50;
constexpr int kShortestMs = 1;
constexpr std::size_t kFewBytes =
    8 << 10;  // in an interval. A socket holds 200 short lines and more, which are 30 KiB

std::string random_name() {
  std::random_device random;
  std::string name = "nsa-harness-";
  for (int i = 0; i < 32; ++i) name += "0123456789abcdef"[random() % 16];
  return name;
}

}  // namespace

Callers::Callers()
    : address_(random_name()),
      listening_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      interval_ms_(kLongestMs) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  address_.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // behind a zero: abstract
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address_.size());
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the socket API's own way
  const bool listens = listening_.is_open() && bind(listening_.get(), generic, length) == 0 &&
                       listen(listening_.get(), SOMAXCONN) == 0;
  if (!listens) throw nsa::Error(std::string("cannot listen for ranks: ") + std::strerror(errno));
}

void Callers::add_to(std::vector<pollfd>& waited) const {
  waited.push_back({listening_.get(), POLLIN, 0});
}

void Callers::read(const OnLine& on_line) {
  accept_all();
  std::size_t most = 0;
  for (const auto& caller : callers_) most = std::max(most, read_one(*caller, on_line));
  std::erase_if(callers_, [](const auto& caller) { return !caller->fd.is_open(); });
  // At least doubled while they write little, so that one line does not undo what many have shown.
  const std::size_t fitting = most == 0 ? kLongestMs : interval_ms_ * kFewBytes / most;
  const std::size_t longest = std::min(2 * interval_ms_, kLongestMs);
  interval_ms_ = static_cast<int>(std::clamp<std::size_t>(fitting, kShortestMs, longest));
}

void Callers::accept_all() {
  while (true) {
    Fd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) return;
    ucred who{};
    socklen_t size = sizeof who;
    const bool known = getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
    if (!known || who.uid != geteuid()) continue;
    callers_.push_back(std::make_unique<Caller>(who.pid, std::move(fd)));
  }
}

std::size_t Callers::read_one(Caller& caller, const OnLine& on_line) {
  const auto on_piece = [&](LineReader::Piece piece, std::string_view text) {
    on_line(caller.pid, piece, text);
  };
  std::array<char, 1 << 16> buffer;  // NOLINT: filled by recv()
  std::size_t bytes = 0;
  for (int i = 0; i < kReadsOfACaller; ++i) {
    const ssize_t n = recv(caller.fd.get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      bytes += static_cast<std::size_t>(n);
      caller.lines.feed({buffer.data(), static_cast<std::size_t>(n)}, on_piece);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      break;
    } else {
      caller.lines.finish(on_piece);
      caller.fd.reset();
      break;
    }
  }
  return bytes;
}

bool Callers::ask_for_stacks(pid_t pid) const {
  const auto at = std::find_if(
      callers_.begin(), callers_.end(), [&](const auto& caller) { return caller->pid == pid; });
  constexpr std::string_view kAsk = "stacks\n";
  return at != callers_.end() && send((*at)->fd.get(), kAsk.data(), kAsk.size(), MSG_NOSIGNAL) ==
                                     static_cast<ssize_t>(kAsk.size());
}

}  // namespace harness
