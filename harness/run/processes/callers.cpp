#include "harness/run/processes/callers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
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

constexpr const char* kSocketName = "ranks.sock";

// The path may be longer than a socket's address: it is bound through its folder. 0, or the number of the error.
int bind_in(const std::string& folder, const Fd& listening) {
  const Fd at(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.is_open()) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(at.get()) + "/" + kSocketName;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the socket API's own way
  return bind(listening.get(), generic, sizeof address) == 0 ? 0 : errno;
}

// Of this user alone; "" where none can be made.
std::string make_temporary_folder() {
  const char* const temporary = std::getenv("TMPDIR");
  std::string folder =
      std::string(temporary != nullptr ? temporary : "/tmp") + "/nsa-harness-XXXXXX";
  return mkdtemp(folder.data()) != nullptr ? folder : "";
}

}  // namespace

Callers::Callers(const std::string& folder)
    : folder_(std::filesystem::absolute(folder)),
      listening_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      interval_ms_(kLongestMs) {
  int error = listening_.is_open() ? bind_in(folder_, listening_) : errno;
  if (error != 0 && listening_.is_open()) {
    const std::string own = make_temporary_folder();
    is_own_ = !own.empty() && bind_in(own, listening_) == 0;
    if (is_own_) {
      folder_ = own;
      error = 0;
    } else if (!own.empty()) {
      rmdir(own.c_str());
    }
  }
  if (error == 0 && listen(listening_.get(), SOMAXCONN) != 0) error = errno;
  if (error == 0) return;
  throw nsa::Error("cannot listen for ranks in " + folder_ + ": " + std::strerror(error));
}

Callers::~Callers() {
  if (!listening_.is_open()) return;
  unlink(address().c_str());
  if (is_own_) rmdir(folder_.c_str());
}

std::string Callers::address() const {
  return folder_ + "/" + kSocketName;
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

void Callers::ask_for_flight(pid_t pid) const {
  const auto at = std::find_if(
      callers_.begin(), callers_.end(), [&](const auto& caller) { return caller->pid == pid; });
  constexpr std::string_view kAsk = "flight\n";
  if (at != callers_.end()) send((*at)->fd.get(), kAsk.data(), kAsk.size(), MSG_NOSIGNAL);
}

}  // namespace harness
