// What processes did when, as a trace in the JSON that Perfetto and chrome://tracing read: a process of the trace is
// a case, a thread is a rank. Phases are slices; collectives are asynchronous, since several are under way at once.
#include <nlohmann/json.hpp>

#include "reports/formats.h"

namespace reports {
namespace {

using nlohmann::json;

constexpr int kAllRanks = 1000000;  // the thread of what concerns all of them

// Threads are numbered from 1: ranks first, the twin and others after them.
int thread_of(int process) {
  return process >= 0 ? process + 1 : kAllRanks / 2 - process;
}

class Trace {
 public:
  explicit Trace(std::int64_t number) : number_(number) {}

  void name(const char* what, int thread, const std::string& name) {
    add({{"ph", "M"}, {"name", what}, {"tid", thread}, {"args", {{"name", name}}}});
  }

  void slice(const Stretch& one, int thread) {
    json event = {{"ph", "X"},
                  {"cat", "phase"},
                  {"name", one.name},
                  {"tid", thread},
                  {"ts", one.from_ms * 1000},
                  {"dur", (one.to_ms - one.from_ms) * 1000},
                  {"args", {{"step", one.step}}}};
    if (one.open) event["args"]["never ended"] = true;
    add(std::move(event));
  }

  void collective(const Stretch& one, int thread) {
    const std::string id = std::to_string(number_) + "." + std::to_string(thread) + "." +
                           one.group + "." + std::to_string(one.number);
    json begin = {{"ph", "b"},
                  {"cat", "collective"},
                  {"name", one.name},
                  {"id", id},
                  {"tid", thread},
                  {"ts", one.from_ms * 1000},
                  {"args",
                   {{"sequence", one.number},
                    {"group", one.group},
                    {"elements", one.elements},
                    {"step", one.step}}}};
    if (one.open) begin["args"]["never ended"] = true;
    json end = {{"ph", "e"},
                {"cat", "collective"},
                {"name", one.name},
                {"id", id},
                {"tid", thread},
                {"ts", one.to_ms * 1000}};
    add(std::move(begin));
    add(std::move(end));
  }

  // `scope`: "t" of a thread, "p" of a case.
  void moment(const Moment& one, int thread, const char* scope) {
    add({{"ph", "i"},
         {"cat", "moment"},
         {"name", one.what},
         {"tid", thread},
         {"ts", one.at_ms * 1000},
         {"s", scope}});
  }

  json events = json::array();

 private:
  void add(json event) {
    event["pid"] = number_;
    events.push_back(std::move(event));
  }
  std::int64_t number_;
};

json events_of(std::int64_t number, const std::string& name, const Timeline& timeline) {
  Trace trace(number);
  trace.name("process_name", 0, name);
  for (const Lane& lane : timeline.lanes) {
    const int thread = thread_of(lane.process);
    trace.name("thread_name", thread, harness::process_name(lane.process));
    for (const Stretch& one : lane.phases) trace.slice(one, thread);
    for (const Stretch& one : lane.collectives) trace.collective(one, thread);
    for (const Moment& one : lane.moments) trace.moment(one, thread, "t");
  }
  if (timeline.standstills.empty() && timeline.moments.empty()) return trace.events;
  trace.name("thread_name", kAllRanks, "all");
  for (const Stretch& one : timeline.standstills) trace.slice(one, kAllRanks);
  for (const Moment& one : timeline.moments) trace.moment(one, kAllRanks, "p");
  return trace.events;
}

}  // namespace

std::string perfetto_text(const ReportView& view) {
  json events = json::array();
  std::int64_t number = 0;
  for (const CaseView& one : view.cases) {
    const auto at = view.request.timelines.find(one.record.id);
    if (at == view.request.timelines.end()) continue;
    const std::string name = harness::name_of(one.outcome()) + (" " + one.record.label);
    for (json& event : events_of(++number, name, at->second)) events.push_back(std::move(event));
  }
  const json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace reports
