#include "harness/run/join/link.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "harness/run/clock.h"
#include "nsa/base/error.h"

namespace harness {
namespace {

constexpr int kReadsOfALink = 16;  // of 64 KiB, as of a pipe

std::string address_of(int socket, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the socket API's own way
  std::array<char, INET_ADDRSTRLEN> text{};
  if (name(socket, generic, &length) != 0 || address.sin_family != AF_INET) return "";
  return inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) != nullptr ? text.data()
                                                                                    : "";
}

void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Link::Link(Fd socket, std::size_t max_line_bytes)
    : socket_(std::move(socket)),
      lines_(max_line_bytes),
      heard_ms_(monotonic_ms()),
      sent_ms_(monotonic_ms()) {
  send_at_once(socket_.get());
}

void Link::allow_lines_of(std::size_t max_bytes) {
  lines_ = LineReader(max_bytes);
}

void Link::add_to(std::vector<pollfd>& waited) const {
  if (!is_open()) return;
  const auto events = static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
  waited.push_back({socket_.get(), events, 0});
}

void Link::send(std::string_view line) {
  if (!is_open()) return;
  unsent_.append(line).push_back('\n');
  sent_ms_ = monotonic_ms();
  flush();
}

void Link::flush() {
  std::size_t done = 0;
  while (is_open() && done < unsent_.size()) {
    const ssize_t n = ::send(
        socket_.get(), unsent_.data() + done, unsent_.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      // What came before the end is still to be read: read() closes.
      unsent_.clear();
      return;
    }
  }
  unsent_.erase(0, done);
}

void Link::read(const std::function<void(std::string_view line)>& on_line) {
  flush();
  const LineReader::OnLine on_piece = [&](LineReader::Piece piece, std::string_view text) {
    if (!is_open()) return;  // given up in the midst of what came
    if (piece == LineReader::Piece::line) return on_line(text);
    close(piece == LineReader::Piece::too_long ? "it sent a line that is too long"
                                               : "it was closed in the midst of a line");
  };
  std::array<char, 1 << 16> buffer;  // NOLINT: filled by recv()
  for (int i = 0; i < kReadsOfALink && is_open(); ++i) {
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      heard_ms_ = monotonic_ms();
      lines_.feed({buffer.data(), static_cast<std::size_t>(n)}, on_piece);
    } else if (n == 0) {
      lines_.finish(on_piece);
      close("it was closed");
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      close(std::strerror(errno));
    }
  }
}

void Link::close(const std::string& why) {
  if (!is_open()) return;
  socket_.reset();
  why_closed_ = why;
}

std::int64_t Link::silent_ms() const {
  return monotonic_ms() - heard_ms_;
}

std::int64_t Link::since_sent_ms() const {
  return monotonic_ms() - sent_ms_;
}

std::string Link::own_address() const {
  return address_of(socket_.get(), &getsockname);
}

std::string Link::other_address() const {
  return address_of(socket_.get(), &getpeername);
}

Fd connect_to(const std::string& address, int port, std::int64_t deadline_ms) {
  const std::string place = address + ":" + std::to_string(port);
  const auto fail = [&](const std::string& why) {
    throw nsa::Error("cannot connect to " + place + ": " + why);
  };
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) {
    fail("wanted an IPv4 address in numbers");
  }
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) fail(std::strerror(errno));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&where);  // NOLINT: as above
  if (connect(fd.get(), generic, sizeof where) == 0) return fd;
  if (errno != EINPROGRESS) fail(std::strerror(errno));
  const std::int64_t until_ms = monotonic_ms() + deadline_ms;
  for (std::int64_t left = deadline_ms; left > 0; left = until_ms - monotonic_ms()) {
    pollfd ready{fd.get(), POLLOUT, 0};
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
    fail(std::strerror(error));
  }
  fail("no answer in " + std::to_string(deadline_ms / 1000) + " s");
  return {};
}

}  // namespace harness
