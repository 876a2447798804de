// A process group of one rank over loopback, for tests of what a rank does with its peers' help.
#pragma once

#include <arpa/inet.h>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "nsa/parallel/communicator.h"

namespace tests {

struct SeenCollectives : nsa::CollectiveObserver {
  std::vector<nsa::CollectiveInfo> begun;
  std::vector<std::int64_t> ended;
  std::mutex mutex;
  std::condition_variable changed;

  void enqueued(const nsa::CollectiveInfo& info) override {
    const std::lock_guard lock(mutex);
    begun.push_back(info);
  }
  void completed(std::int64_t sequence, const std::string&) override {
    const std::lock_guard lock(mutex);
    ended.push_back(sequence);
    changed.notify_all();
  }
  // A collective's end is told on a thread of the backend's, which may come after whoever waited for it went on.
  [[nodiscard]] bool all_ended() {
    std::unique_lock lock(mutex);
    return changed.wait_for(
        lock, std::chrono::seconds(60), [this] { return ended.size() == begun.size(); });
  }
};

inline nsa::CommunicatorOptions alone() {
  nsa::CommunicatorOptions options;
  options.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(options.listen_fd, generic, size) != 0 || listen(options.listen_fd, 8) != 0 ||
      getsockname(options.listen_fd, generic, &size) != 0) {
    throw std::runtime_error("no loopback socket");
  }
  options.port = ntohs(address.sin_port);
  options.timeout = std::chrono::milliseconds(60'000);
  return options;
}

}  // namespace tests
