// The fixtures in C++ that planted cases of the data may `use`.
#include "tests/checks/planted_fixtures.h"

#include <map>

#include "tests/checks/planted_data.h"
#include "tests/checks/planted_machine.h"

namespace fixtures {
namespace {

using nsa::YamlNode;
using Arguments = std::vector<YamlNode>;

template <typename Value>
Value argument(const YamlNode& node) {
  const std::string what = "with";
  if constexpr (std::same_as<Value, float>) {
    return static_cast<float>(nsa::read_double(node, what));
  } else if constexpr (std::same_as<Value, std::vector<std::int64_t>> ||
                       std::same_as<Value, std::set<std::int64_t>>) {
    const std::vector<int> numbers = nsa::read_ints(node, what);
    return {numbers.begin(), numbers.end()};
  } else {
    Value value{};
    nsa::read_value(node, what, value);
    return value;
  }
}

struct Fixture {
  std::size_t arguments = 0;
  std::function<void(Healthy&, const Arguments&)> make;
};

template <typename Result, typename... Values>
Fixture fixture(Result (*make)(Healthy&, Values...)) {
  return {sizeof...(Values), [make](Healthy& h, const Arguments& with) {
            [&]<std::size_t... I>(std::index_sequence<I...>) {
              make(h, argument<std::remove_cvref_t<Values>>(with[I])...);
            }
            (std::index_sequence_for<Values...>());
          }};
}

const std::map<std::string, Fixture>& all_fixtures() {
  static const std::map<std::string, Fixture> kAll = {
      {"accumulate_two", fixture(&accumulate_two)},
      {"add_builds", fixture(&add_builds)},
      {"as_at", fixture(&as_at)},
      {"as_command", fixture(&as_command)},
      {"as_watched", fixture(&as_watched)},
      {"ask_for", fixture(&ask_for)},
      {"checkpoint", fixture(&checkpoint)},
      {"compute_whole_layers", fixture(&compute_whole_layers)},
      {"gradients_differ", fixture(&gradients_differ)},
      {"gradients_exchanged", fixture(&gradients_exchanged)},
      {"interrupt", fixture(&interrupt)},
      {"issue", fixture(&issue)},
      {"lived_before", fixture(&lived_before)},
      {"make_sweep", fixture(&make_sweep)},
      {"moved_again", fixture(&moved_again)},
      {"one_bucket", fixture(&one_bucket)},
      {"record_events_only", fixture(&record_events_only)},
      {"record_processes_only", fixture(&record_processes_only)},
      {"replicate", fixture(&replicate)},
      {"sits_out", fixture(&sits_out)},
      {"skip", fixture(&skip)},
      {"sound_machine", fixture(&sound_machine)},
      {"start_from_scratch", fixture(&start_from_scratch)},
      {"still_command", fixture(&still_command)},
      {"stopped", fixture(&stopped)},
      {"trace_kernels", fixture(&trace_kernels)},
      {"twin_needed", fixture(&twin_needed)},
      {"wait_for_all_data", fixture(&wait_for_all_data)},
      {"wait_for_data", fixture(&wait_for_data)},
      {"wait_for_kernel", fixture(&wait_for_kernel)},
      {"waiting", fixture(&waiting)},
      {"waits_as_ever", fixture(&waits_as_ever)},
      {"without_twin", {0, [](Healthy& h, const Arguments&) { h.without_twin(); }}},
  };
  return kAll;
}

}  // namespace

std::function<void(Healthy&)> fixture_named(const YamlNode& name, const YamlNode* arguments) {
  std::vector<std::string> known;
  for (const auto& [one, fixture] : all_fixtures()) known.push_back(one);
  const Fixture& fixture = all_fixtures().at(nsa::read_name(name, "use", known));
  const Arguments with = arguments == nullptr ? Arguments{} : arguments->items;
  if (with.size() != fixture.arguments) {
    throw nsa::Error(name.where,
                     "use: found " + std::to_string(with.size()) + " arguments of " + name.scalar +
                         ", wanted " + std::to_string(fixture.arguments));
  }
  return [&fixture, with](Healthy& h) { fixture.make(h, with); };
}

}  // namespace fixtures
