#include "harness/cli/running/progress_line.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr auto kPlainPause = std::chrono::seconds(2);  // between plain lines: a log stays readable
constexpr std::size_t kShownProcesses = 4;
constexpr std::size_t kShortestLabel = 8;  // less tells nobody which case it is

std::size_t terminal_width() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string shortened(const std::string& label, std::size_t most) {
  return label.size() <= most ? label : label.substr(0, most - 2) + "..";
}

// The twin counts as -1: it is shown after the ranks.
int order_of(int process) {
  return process == kTwin ? std::numeric_limits<int>::max() : process;
}

// Phases come from workers: nothing that could steer a terminal.
std::string harmless(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 32));
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20 || static_cast<unsigned char>(letter) > 0x7e)
      letter = '?';
  }
  return text;
}

}  // namespace

ProgressLine::Style ProgressLine::style_for(bool quiet) {
  if (quiet) return Style::none;
  return isatty(STDERR_FILENO) != 0 ? Style::terminal : Style::plain;
}

void ProgressLine::begin_case(const std::string& label, int position, int count) {
  const std::lock_guard lock(mutex_);
  hide();
  count_ = count;
  ++begun_;
  const auto now = Clock::now();
  running_[position] = {label, now, now - kPlainPause, {}, false};
  if (style_ == Style::plain) std::cerr << begun() << label << "\n";
  show();
}

void ProgressLine::end_case(int position, bool good) {
  const std::lock_guard lock(mutex_);
  running_.erase(position);
  if (!good) ++failed_;
}

void ProgressLine::on_event(int position, const Event& event) {
  if (style_ == Style::none || event.process == kController) return;
  const std::lock_guard lock(mutex_);
  Running& running = running_[position];
  State& state = running.processes[order_of(event.process)];
  if (event.kind == Done::kKind) {
    state.done = true;
  } else if (event.kind == Heartbeat::kKind) {
    const auto beat = event.body.get<Heartbeat>();
    state.phase = harmless(beat.phase);
    state.step = beat.step;
    state.moved = beat.counters.moved();
  } else if (event.kind == Phase::kKind) {
    const auto phase = event.body.get<Phase>();
    state.phase = harmless(phase.phase);
    state.step = phase.step;
    print_plainly(running);
  }
}

void ProgressLine::begin_judging(int position) {
  const std::lock_guard lock(mutex_);
  Running& running = running_[position];
  running.judged = true;
  print_plainly(running);
  show();
}

void ProgressLine::print_plainly(Running& running) {
  if (style_ != Style::plain || Clock::now() - running.printed < kPlainPause) return;
  running.printed = Clock::now();
  std::cerr << begun() << running.label << running.in_full() << "\n";
}

void ProgressLine::on_tick() {
  const std::lock_guard lock(mutex_);
  show();
}

void ProgressLine::aside(const std::function<void()>& print) {
  const std::lock_guard lock(mutex_);
  hide();
  print();
}

void ProgressLine::show() {
  if (style_ != Style::terminal) return;
  const std::size_t width = terminal_width();
  std::cerr << "\r\x1b[K" << line(width - 1) << std::flush;  // a full line would scroll
  shown_ = true;
}

void ProgressLine::hide() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

std::string ProgressLine::text(std::size_t width) const {
  const std::lock_guard lock(mutex_);
  return line(width);
}

std::string ProgressLine::begun() const {
  const std::string failed = failed_ == 0 ? "" : ", " + std::to_string(failed_) + " failed";
  return "[" + std::to_string(begun_) + "/" + std::to_string(count_) + failed + "] ";
}

std::string ProgressLine::line(std::size_t width) const {
  if (running_.empty()) return "";
  std::string text = begun();
  const bool alone = running_.size() == 1;
  if (!alone) text += std::to_string(running_.size()) + " at once";
  std::vector<std::string> rest;  // of each case, after its label
  std::size_t others = text.size();
  std::size_t longest = 0;
  for (const auto& [position, running] : running_) {
    rest.push_back(alone ? running.in_full() : running.in_short());
    others += rest.back().size() + (alone ? 0 : 3);
    longest = std::max(longest, running.label.size());
  }
  std::size_t most = longest;  // what is left for each label
  if (others + longest * running_.size() > width) {
    most = others < width ? (width - others) / running_.size() : 0;
    most = std::max(most, kShortestLabel);
  }
  std::size_t index = 0;
  for (const auto& [position, running] : running_) {
    text += (alone ? "" : " | ") + shortened(running.label, most) + rest[index++];
  }
  text.resize(std::min(text.size(), width));
  return text;
}

std::string ProgressLine::Running::seconds() const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun);
  return " " + std::to_string(seconds.count()) + " s";
}

std::string ProgressLine::Running::in_full() const {
  std::string line = seconds();
  if (judged) return line + " | judging what was recorded";
  std::size_t shown = 0;
  for (const auto& [order, state] : processes) {
    if (++shown > kShownProcesses) {
      return line + " | and " + std::to_string(processes.size() - kShownProcesses) + " more";
    }
    const int process = order == order_of(kTwin) ? kTwin : order;
    line += " | " + process_name(process) + " " + state.text();
  }
  return line;
}

// Of the last process: the twin once it runs.
std::string ProgressLine::Running::in_short() const {
  if (judged) return seconds() + " judging";
  return seconds() + (processes.empty() ? "" : " " + processes.rbegin()->second.text());
}

std::string ProgressLine::State::text() const {
  if (done) return "done";
  std::string text = phase.empty() ? "starts" : phase;
  if (step > 0) text += " step " + std::to_string(step);
  if (moved > 0) text += ", " + std::to_string(moved) + " ops";
  return text;
}

}  // namespace harness::cli
