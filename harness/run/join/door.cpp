#include "harness/run/join/door.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <utility>

#include "harness/run/clock.h"
#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

constexpr std::size_t kMostStrangers = 64;    // at once; others wait in the kernel's queue
constexpr std::int64_t kStrangerMs = 10'000;  // to say who it is: an agent does so at once
// When there is no room for another one: what says nothing (a scan, a look of a monitor) must not keep an agent waiting.
constexpr std::int64_t kHurriedMs = 500;
constexpr std::size_t kMostNamed = 20;  // of those turned away

std::string on_one_line(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace

Door::Door(const std::string& address, int port, Token token, int ranks, std::string sources)
    : listener_(listen_on(address, port)),
      token_(std::move(token)),
      ranks_(ranks),
      sources_(std::move(sources)) {
  fcntl(listener_.fd.get(), F_SETFL, O_NONBLOCK);
}

void Door::add_to(std::vector<pollfd>& waited) const {
  if (strangers_.size() < kMostStrangers) waited.push_back({listener_.fd.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) stranger.link->add_to(waited);
  for (const auto& [rank, joined] : joined_) joined.link->add_to(waited);
}

void Door::look() {
  accept_all();
  for (Stranger& stranger : strangers_) hear(stranger);
  std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.done; });
  for (const auto& [rank, joined] : joined_) {
    Link& link = *joined.link;
    link.read([&](std::string_view line) {
      link.close("it said \"" + on_one_line(nsa::shortened(line)) + "\" before the start");
    });
    if (!link.is_open()) {
      throw nsa::Error("rank " + std::to_string(rank) + " joined from " + joined.join.host +
                       " and was lost before the start: " + link.why_closed());
    }
    if (link.since_sent_ms() >= kAliveMs) link.send("alive");
  }
}

void Door::accept_all() {
  while (strangers_.size() < kMostStrangers) {
    Fd fd(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) return;
    Stranger stranger;
    stranger.link = std::make_unique<Link>(std::move(fd), kMaxJoinBytes);
    stranger.since_ms = monotonic_ms();
    strangers_.push_back(std::move(stranger));
  }
}

void Door::hear(Stranger& stranger) {
  stranger.link->read([&](std::string_view line) {
    if (!stranger.done) on_line(stranger, line);
  });
  if (stranger.done) return;
  if (!stranger.link->is_open()) {
    refuse(stranger, stranger.link->why_closed() + " before it had said who it is");
  } else if (monotonic_ms() - stranger.since_ms >=
             (strangers_.size() < kMostStrangers ? kStrangerMs : kHurriedMs)) {
    refuse(stranger, "it did not say who it is");
  }
}

void Door::on_line(Stranger& stranger, std::string_view line) {
  const Message message = message_of(line);
  if (message.word != "join") return refuse(stranger, "it does not speak as an agent");
  Join join;
  try {
    join = read_join(message.rest);
  } catch (const nsa::Error& error) {
    return refuse(stranger, error.what());
  }
  if (!same_secret(join.token, token_.of_agent())) return refuse(stranger, "wrong token");
  const std::string rank = "rank " + std::to_string(join.rank);
  if (join.sources != sources_) {
    return refuse(stranger,
                  rank + " was built from other sources (" + nsa::shortened(join.sources) +
                      ") than the controller (" + sources_ + ")");
  }
  if (join.world != ranks_) {
    throw nsa::Error("the launcher started " + std::to_string(join.world) +
                     " processes, but the scenario has " + std::to_string(ranks_) + " ranks");
  }
  if (joined_.contains(join.rank)) return refuse(stranger, "a second " + rank);
  stranger.done = true;
  Joined& joined = joined_[join.rank];
  joined.link = std::move(stranger.link);
  joined.join = std::move(join);
  joined.join.token.clear();
}

void Door::refuse(Stranger& stranger, const std::string& why) {
  stranger.done = true;
  const std::string from = stranger.link->is_open() ? stranger.link->other_address() : "somebody";
  stranger.link->send("refused " + on_one_line(why));
  if (refused_.size() < kMostNamed) {
    refused_.push_back(from + ": " + on_one_line(why));
  } else {
    ++refused_unnamed_;
  }
}

std::vector<int> Door::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!joined_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Joined> Door::close() {
  listener_.fd.reset();
  strangers_.clear();
  std::vector<Joined> all;
  for (auto& [rank, joined] : joined_) {
    joined.link->allow_lines_of(kMaxMessageBytes);
    all.push_back(std::move(joined));
  }
  joined_.clear();
  return all;
}

}  // namespace harness
