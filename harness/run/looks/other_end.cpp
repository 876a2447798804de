#include "harness/run/looks/other_end.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <signal.h>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "nsa/base/text.h"

namespace harness {
namespace {

std::string path_of(pid_t pid, int descriptor) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
}

// "pipe:[4711]", "socket:[4712]", or a path; "" where it cannot be read.
std::string link_of(const std::string& path) {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error).string();
  return error ? "" : target;
}

struct Connection {
  std::string local;  // address and port, as the kernel writes them
  std::string remote;
  std::string state;  // "01": established
  std::string inode;
};

constexpr std::size_t kHexOfV4 = 8;
constexpr std::string_view kV4InV6 = "0000000000000000FFFF0000";

// "0000000000000000FFFF00000100007F:0050" is "0100007F:0050".
std::string plain(std::string address) {
  return address.starts_with(kV4InV6) ? address.substr(kV4InV6.size()) : address;
}

std::vector<Connection> connections_of(pid_t pid) {
  std::vector<Connection> all;
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    std::istringstream lines(proc_file(pid, table));
    std::string line;
    std::getline(lines, line);  // the titles
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      Connection one;
      std::string ignored;
      fields >> ignored >> one.local >> one.remote >> one.state;
      constexpr int kBetween = 5;  // queues, timer, retransmissions, user, probes
      for (int i = 0; i < kBetween; ++i) fields >> ignored;
      if (!(fields >> one.inode)) continue;
      one.local = plain(one.local);
      one.remote = plain(one.remote);
      all.push_back(std::move(one));
    }
  }
  return all;
}

// "0100007F:0050" -> "127.0.0.1:80": each word of four bytes stands in the order of this machine.
std::string readable(const std::string& address) {
  const std::size_t colon = address.find(':');
  constexpr std::size_t kWord = 8;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < words.size() && (i + 1) * kWord <= colon; ++i) {
    words.at(i) = static_cast<std::uint32_t>(
        std::strtoul(address.substr(i * kWord, kWord).c_str(), nullptr, 16));
  }
  const bool v4 = colon == kHexOfV4;
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(v4 ? AF_INET : AF_INET6, words.data(), text.data(), text.size());
  const long port = std::strtol(address.c_str() + colon + 1, nullptr, 16);
  const std::string host = text.data();
  return (v4 ? host : "[" + host + "]") + ":" + std::to_string(port);
}

bool is_loopback(const std::string& address) {
  return readable(address).starts_with("127.") || readable(address).starts_with("[::1]");
}

struct Lock {
  std::string id;
  bool waits = false;
  pid_t pid = 0;
};

// Lines such as "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; who waits for it has "->" behind the same number.
std::vector<Lock> locks() {
  std::vector<Lock> all;
  std::ifstream file("/proc/locks");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    Lock one;
    std::string word;
    fields >> one.id >> word;
    one.waits = word == "->";
    if (one.waits) fields >> word;
    if (fields >> word >> word >> one.pid) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

bool OtherEnds::started_together(pid_t one, pid_t other) const {
  const std::vector<pid_t> ours = with_ancestors(all_, getpid());
  const std::set<pid_t> above(ours.begin() + 1, ours.end());
  const std::vector<pid_t> of_other = with_ancestors(all_, other);
  for (const pid_t pid : with_ancestors(all_, one)) {
    if (pid <= 1 || above.contains(pid)) return false;
    if (std::find(of_other.begin(), of_other.end(), pid) != of_other.end()) return true;
  }
  return false;
}

std::string OtherEnds::name_of(pid_t pid) const {
  const auto at = all_.find(pid);
  return "process " + std::to_string(pid) + (at == all_.end() ? "" : " (" + at->second.name + ")");
}

const std::vector<pid_t>& OtherEnds::holders_of(const std::string& target) {
  if (holders_.empty()) {
    for (const auto& [pid, state] : all_) {
      std::error_code error;
      std::filesystem::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", error);
      for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
        std::vector<pid_t>& holders = holders_[link_of(at->path().string())];
        if (holders.empty() || holders.back() != pid) holders.push_back(pid);
      }
    }
  }
  return holders_[target];
}

OtherEnd OtherEnds::among(pid_t pid,
                          const std::vector<pid_t>& holders,
                          const std::string& how) const {
  OtherEnd end;
  end.outside = true;
  for (const pid_t holder : holders) {
    if (holder == pid) continue;
    end.holders.push_back(holder);
    end.outside = end.outside && !started_together(pid, holder);
  }
  if (end.holders.empty()) return {};
  end.told = name_of(end.holders.front()) + how;
  return end;
}

OtherEnd OtherEnds::of_lock(pid_t pid) const {
  const std::vector<Lock> all = locks();
  const auto own = std::find_if(
      all.begin(), all.end(), [&](const Lock& one) { return one.waits && one.pid == pid; });
  if (own == all.end()) return {};
  const auto held = std::find_if(
      all.begin(), all.end(), [&](const Lock& one) { return !one.waits && one.id == own->id; });
  // The kernel does not list locks of processes that this namespace has no number for.
  if (held == all.end() || held->pid == 0)
    return {"a process that cannot be seen from here, which holds the lock", {}, true};
  if (held->pid < 0) return {};  // of an open file, whichever process has it
  if (held->pid == pid) return {"itself: it holds the lock already", {}, false};
  if (kill(held->pid, 0) != 0 && errno == ESRCH)
    return {"process " + std::to_string(held->pid) +
                ", which took the lock and has ended; who inherited the file still holds it",
            {},
            false};
  return among(pid, {held->pid}, ", which holds the lock");
}

OtherEnd OtherEnds::of_connection(pid_t pid, const std::string& inode) {
  constexpr const char* kListens = "0A";
  const std::vector<Connection> all = connections_of(pid);
  const auto own = std::find_if(
      all.begin(), all.end(), [&](const Connection& one) { return one.inode == inode; });
  if (own == all.end() || own->state == kListens) return {};
  const std::string at = " at " + readable(own->remote);
  const auto peer = std::find_if(all.begin(), all.end(), [&](const Connection& one) {
    return one.local == own->remote && one.remote == own->local;
  });
  if (peer == all.end() && is_loopback(own->remote)) return {};
  if (peer == all.end()) return {"a server" + at, {}, true};
  if (peer->inode == "0") return {};  // it is being closed
  OtherEnd end = among(pid, holders_of("socket:[" + peer->inode + "]"), at);
  if (end.holders.empty()) return {"a process of another user" + at, {}, true};
  return end;
}

OtherEnd OtherEnds::of_descriptor(pid_t pid, int descriptor) {
  constexpr std::string_view kSocket = "socket:[";
  const std::string path = path_of(pid, descriptor);
  const std::string target = link_of(path);
  if (target.starts_with(kSocket))
    return of_connection(pid, target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
  struct stat kind {};
  if (target.empty() || stat(path.c_str(), &kind) != 0) return {};
  if (S_ISFIFO(kind.st_mode))
    return among(pid, holders_of(target), ", which has the same pipe open");
  if (S_ISREG(kind.st_mode)) return {"the file system of " + target, {}, true};
  return {};
}

OtherEnd OtherEnds::of(pid_t pid, const WaitingCall& call) {
  if (call.name == "flock" || call.name == "fcntl") return of_lock(pid);
  const auto descriptor = descriptor_of(pid, call);
  return descriptor ? of_descriptor(pid, *descriptor) : OtherEnd{};
}

}  // namespace harness
