#include "harness/run/join/joined_process.h"

#include <algorithm>
#include <utility>

#include "harness/run/clock.h"
#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

constexpr int kStartRoundMs = 50;
constexpr std::int64_t kMostCpuMs = std::int64_t{1} << 53;

ProcessState read_state(std::string_view text) {
  const Message parts = message_of(text);
  if (parts.word.size() != 1) throw nsa::Error("state: wanted a letter and a time");
  ProcessState state;
  state.state = parts.word.front();
  state.cpu_ms = read_number(parts.rest, 0, kMostCpuMs);
  return state;
}

}  // namespace

JoinedProcess::JoinedProcess(std::string name,
                             std::unique_ptr<Link> link,
                             std::shared_ptr<Launcher> launcher,
                             std::int64_t deadline_ms)
    : name_(std::move(name)),
      link_(std::move(link)),
      launcher_(std::move(launcher)),
      deadline_ms_(deadline_ms) {}

void JoinedProcess::await_start(std::int64_t until_ms) {
  while (pid_ == 0) {
    std::vector<pollfd> waited;
    link_->add_to(waited);
    (void)poll(waited.data(), waited.size(), kStartRoundMs);
    link_->read([this](std::string_view line) { on_answer(line); });
    if (pid_ == 0 && !link_->is_open()) {
      throw nsa::Error(name_ + " was lost at its start: " + link_->why_closed());
    }
    if (pid_ == 0 && monotonic_ms() >= until_ms) throw nsa::Error(name_ + " did not start in time");
  }
}

void JoinedProcess::refuse(std::string_view why) const {
  constexpr std::size_t kLongest = 500;
  std::string text(why.substr(0, kLongest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  throw nsa::Error(name_ + ": " + text);
}

void JoinedProcess::on_answer(std::string_view line) {
  constexpr std::int64_t kMostPid = 1 << 30;
  if (pid_ != 0) {
    early_.emplace_back(line);
    return;
  }
  const Message message = message_of(line);
  if (message.word != "started") refuse(message.word == "refused" ? message.rest : line);
  pid_ = static_cast<pid_t>(read_number(message.rest, 1, kMostPid));
}

void JoinedProcess::read(const LineReader::OnLine& on_line, const OnLook& on_look) {
  const auto take = [&](std::string_view line) {
    try {
      if (!end_) on_message(message_of(line), on_line, on_look);
    } catch (const nsa::Error& error) {
      link_->close("its agent said what is no message (" + nsa::shortened(error.what()) + ")");
    }
  };
  for (const std::string& line : early_) take(line);
  early_.clear();
  link_->read(take);
  if (link_->is_open() && link_->since_sent_ms() >= kAliveMs) link_->send("alive");
}

void JoinedProcess::on_message(const Message& message,
                               const LineReader::OnLine& on_line,
                               const OnLook& on_look) {
  if (message.word == "line") {
    on_line(LineReader::Piece::line, message.rest);
  } else if (message.word == "long") {
    on_line(LineReader::Piece::too_long, message.rest);
  } else if (message.word == "half") {
    on_line(LineReader::Piece::unfinished, message.rest);
  } else if (message.word == "state") {
    state_ = read_state(message.rest);
  } else if (message.word == "look") {
    on_look(read_look(message.rest));
  } else if (message.word == "ended") {
    end_ = read_end(message.rest);
    status_ = end_->status;
  } else {
    throw nsa::Error("\"" + nsa::shortened(message.word) + "\"");
  }
}

std::string JoinedProcess::lost() const {
  if (end_) return "";
  if (!link_->is_open()) return "its link ended: " + link_->why_closed();
  if (link_->silent_ms() >= deadline_ms_) {
    return "nothing came over its link for " + std::to_string(deadline_ms_ / 1000) + " s";
  }
  return launcher_->gone_for_long() ? "its launcher had ended" : "";
}

void JoinedProcess::signal(int number) {
  link_->send("signal " + std::to_string(number) + " process");
}

void JoinedProcess::signal_group(int number) {
  link_->send("signal " + std::to_string(number) + " group");
}

void JoinedProcess::close() {
  link_->send("end");
  link_->close("its case had ended");
}

std::optional<Observation> JoinedProcess::look(int /*process*/,
                                               int look,
                                               const Processes& /*all*/) {
  link_->send("look " + std::to_string(look));
  return std::nullopt;
}

}  // namespace harness
