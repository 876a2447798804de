#include "harness/run/record/intake.h"

#include <algorithm>
#include <string>
#include <utility>

#include "harness/evidence/evidence.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

constexpr std::int64_t kMaxRejected =
    100;  // per process: enough to see what is wrong, bounded for the store

// As it is stored: text that came from a worker, printable, of bounded length.
std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 256;
  std::string result(text.substr(0, kLongest));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

}  // namespace

std::optional<Event> Intake::take(int process, LineReader::Piece piece, std::string_view text) {
  if (piece == LineReader::Piece::too_long) {
    reject(process, "line too long", text);
  } else if (piece == LineReader::Piece::unfinished) {
    reject(process, "half a line", text);
  } else {
    try {
      Event event = decode_event(text);
      if (!is_worker_kind(event.kind)) {
        throw nsa::Error("kind " + event.kind + " is not a worker's");
      }
      event.process = process;
      event.t_ms = std::min(event.t_ms, watch_.now_ms());
      check_row(event);
      record(event);
      return event;
    } catch (const nsa::Error& error) {
      reject(process, error.what(), text);
    }
  }
  return std::nullopt;
}

void Intake::hash_file_of(Event& event) const {
  const auto artefact = event.body.get<Artefact>();
  if (!artefact.hash.empty()) return;
  try {
    event.body["hash"] = nsa::hash_file(folder_ + "/" + artefact.path);
  } catch (const nsa::Error&) {  // it is not there: the check that reads it says so
  }
}

void Intake::record(Event event) {
  if (event.kind == Artefact::kKind) hash_file_of(event);
  watch_.heard(event.process, event);
  if (event.kind == Observation::kKind) {
    if (watch_.take_answer(event.process, event)) return;
    event.body["process_observed"] = event.process;
    event.body["look"] = -1;  // came too late, or was not asked for
  }
  sink_.add(std::move(event));
}

void Intake::reject(int process, const char* why, std::string_view text) {
  if (++rejected_[process] > kMaxRejected) return;
  const Fact fact{printable(why), printable(text)};
  sink_.add(Event{process, watch_.now_ms(), kRejectedKind, nlohmann::json(fact)});
}

void Intake::finish(int process) {
  const auto at = rejected_.find(process);
  if (at == rejected_.end() || at->second <= kMaxRejected) return;
  const Fact fact{"more lines rejected", std::to_string(at->second - kMaxRejected)};
  sink_.add(Event{process, watch_.now_ms(), kRejectedKind, nlohmann::json(fact)});
}

}  // namespace harness
