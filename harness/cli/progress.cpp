#include "harness/cli/progress.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <sys/ioctl.h>
#include <unistd.h>

#include "nsa/base/text.h"

namespace harness::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPlainPause = std::chrono::seconds(2);  // between plain lines: a log stays readable
constexpr std::size_t kShownProcesses = 4;
constexpr std::size_t kNarrowest = 40;

std::size_t terminal_width() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::max<std::size_t>(known ? size.ws_col : 80, kNarrowest);
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

double ProgressLine::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - begun_).count();
}

void ProgressLine::begin_case(const std::string& label, int position, int count) {
  clear();
  title_ = "[" + std::to_string(position) + "/" + std::to_string(count) + "] " + label;
  processes_.clear();
  begun_ = Clock::now();
  printed_ = begun_ - kPlainPause;
  if (style_ == Style::plain) std::cerr << title_ << "\n";
  on_tick();
}

void ProgressLine::on_event(const Event& event) {
  if (style_ == Style::none || event.process == kController) return;
  State& state = processes_[order_of(event.process)];
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
    if (style_ == Style::plain && Clock::now() - printed_ >= kPlainPause) {
      printed_ = Clock::now();
      std::cerr << text() << "\n";
    }
  }
}

void ProgressLine::on_tick() {
  if (style_ != Style::terminal) return;
  std::string line = text();
  line.resize(std::min(line.size(), terminal_width() - 1));
  std::cerr << "\r\x1b[K" << line << std::flush;
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

std::string ProgressLine::text() const {
  std::string line = title_ + " " + std::to_string(static_cast<std::int64_t>(elapsed())) + " s";
  std::size_t shown = 0;
  for (const auto& [order, state] : processes_) {
    if (++shown > kShownProcesses) {
      return line + " | and " + std::to_string(processes_.size() - kShownProcesses) + " more";
    }
    const int process = order == order_of(kTwin) ? kTwin : order;
    line += " | " + process_name(process) + " ";
    line += state.done ? "done" : state.phase.empty() ? "starts" : state.phase;
    if (!state.done && state.step > 0) line += " step " + std::to_string(state.step);
    if (!state.done && state.moved > 0) line += ", " + std::to_string(state.moved) + " ops";
  }
  return line;
}

}  // namespace harness::cli
