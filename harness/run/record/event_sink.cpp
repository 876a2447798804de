#include "harness/run/record/event_sink.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "nsa/base/secrets.h"
#include "nsa/base/text.h"

namespace harness {

namespace {

constexpr std::size_t kFewEvents = 4'096;  // some megabytes: what is folded at once

// Keys are names of rows; values are numbers, names, and what processes say: without secrets, and nothing in it steers a terminal.
void hide_secrets(nlohmann::json& value) {
  if (value.is_string()) {
    constexpr std::size_t kShortest = 6;  // the name of a secret and its value
    auto& text = value.get_ref<std::string&>();
    if (text.size() >= kShortest) text = nsa::without_secrets(text);
    text = nsa::without_steering(text, "\n\t");
  } else if (value.is_structured()) {
    for (nlohmann::json& part : value) hide_secrets(part);
  }
}

}  // namespace

EventSink::EventSink(const std::string& folder, const RunnerHooks& hooks)
    : log_(folder), hooks_(hooks) {}

void EventSink::add(Event event) {
  hide_secrets(event.body);
  batch_.push_back(std::move(event));
}

bool EventSink::attempt(const std::function<void()>& action) noexcept {
  try {
    action();
    return true;
  } catch (const std::exception& error) {
    if (error_.empty()) error_ = error.what();
  } catch (...) {
    if (error_.empty()) error_ = "unknown error while recording";
  }
  if (error_.empty()) error_ = "error without a text while recording";
  return false;
}

void EventSink::flush() noexcept {
  if (batch_.empty()) return;
  const auto log = [&] { fold_ ? log_.append_open(batch_) : log_.append(batch_); };
  if (log_works_) log_works_ = attempt(log);
  for (const Event& event : batch_) {
    if (hooks_.on_event && !attempt([&] { hooks_.on_event(event); })) hooks_.on_event = nullptr;
  }
  if (fold_) {
    std::move(batch_.begin(), batch_.end(), std::back_inserter(open_));
    if (open_.size() > 2 * stay_open_ + kFewEvents) settle(false);
  } else {
    keep(batch_);
  }
  batch_.clear();
}

void EventSink::keep(std::span<const Event> events) noexcept {
  for (const Event& event : events) {
    if (hooks_.on_kept && !attempt([&] { hooks_.on_kept(event); })) hooks_.on_kept = nullptr;
  }
}

void EventSink::settle(bool ends) noexcept {
  StepFold::Folded folded;
  if (!attempt([&] { folded = fold_->fold(std::move(open_), ends); })) return;
  keep(folded.settled);
  const auto log = [&] {
    std::vector<Event> open = folded.open;
    if (folded.stretch) open.push_back(*folded.stretch);
    log_.settle(folded.settled, open);
  };
  if (log_works_) log_works_ = attempt(log);
  open_ = std::move(folded.open);
  stay_open_ = open_.size();
}

void EventSink::begin_life() noexcept {
  flush();
  if (!fold_) return;
  settle(true);
  fold_.emplace();
}

void EventSink::tick() noexcept {
  if (hooks_.on_tick && !attempt(hooks_.on_tick)) hooks_.on_tick = nullptr;
}

void EventSink::finish() noexcept {
  flush();
  if (fold_) settle(true);
  if (log_works_) log_works_ = attempt([&] { log_.finish(); });
}

}  // namespace harness
