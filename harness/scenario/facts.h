// Facts of a finding: named values. Checks write them, sentences show them (harness/judge/wording), the judge reads some of them.
// Each name stands once, in kFacts. A name that is not there does not compile.
#pragma once

#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

enum class FactKind { number, text, list, table, truth, any };

// What becomes of a fact when departures at several places become one finding (harness/checks/departures.h).
enum class Merge {
  heaviest,  // that of the departure with the largest error
  total,     // the sum
  smallest,
  largest,
  united,  // one list of all
  agreed   // kept if all departures have the same value
};

struct FactRow {
  const char* name;
  FactKind kind;
  Merge merge = Merge::heaviest;
};

inline constexpr std::array kFacts = [] {
  using enum FactKind;
  using enum Merge;
  return std::array{
      FactRow{"about", text},
      FactRow{"above_floor_nats", number},
      FactRow{"after_ms", number},
      FactRow{"agreed", any},
      FactRow{"agreed_after", number},
      FactRow{"all_reduces", number},
      FactRow{"alone", number},
      FactRow{"as_many", text},
      FactRow{"asked", any},
      FactRow{"asked_bytes", number},
      FactRow{"batch_size", number},
      FactRow{"batches", number, total},
      FactRow{"before", text},
      FactRow{"before_the_last_micro_batch", number},
      FactRow{"blocks", truth},
      FactRow{"bound", number},
      FactRow{"buckets", any},
      FactRow{"busy", number},
      FactRow{"call", any, Merge::agreed},
      FactRow{"came_bytes", number},
      FactRow{"cards", table},
      FactRow{"cause", text},
      FactRow{"child", text},
      FactRow{"children", list},
      FactRow{"compressed_tokens", list, united},
      FactRow{"computed_ms", number},
      FactRow{"core", text},
      FactRow{"count", number},
      FactRow{"counter", text},
      FactRow{"deficit_nats", number},
      FactRow{"device_code", number},
      FactRow{"differing", number, largest},
      FactRow{"differs_by_rank", truth},
      FactRow{"direction", text},
      FactRow{"documents", list, united},
      FactRow{"dtype", text},
      FactRow{"dtypes", text},
      FactRow{"effective", any},
      FactRow{"element", any},
      FactRow{"elements", number, total},
      FactRow{"elsewhere", text},
      FactRow{"end", text},
      FactRow{"error", number},
      FactRow{"errors", text},
      FactRow{"exit_code", number},
      FactRow{"expected", number},
      FactRow{"expected_bytes", number},
      FactRow{"exponent", number},
      FactRow{"extra", number},
      FactRow{"factor", number},
      FactRow{"fewer", text},
      FactRow{"find_unused", truth},
      FactRow{"first", any},
      FactRow{"first_quarter_nats", number},
      FactRow{"first_step", number, smallest},
      FactRow{"fitted", text},
      FactRow{"flight", table},
      FactRow{"follow", list, united},
      FactRow{"found", any},
      FactRow{"found_bytes", number},
      FactRow{"fresh", text, Merge::largest},
      FactRow{"fresh_wrong", text, Merge::largest},
      FactRow{"gain_nats", number},
      FactRow{"gone", text},
      FactRow{"gradient_as_bucket_view", truth},
      FactRow{"gradients_differ_in", list},
      FactRow{"group", text},
      FactRow{"groups", list, united},
      FactRow{"growth_bytes", number},
      FactRow{"growth_bytes_per_step", number},
      FactRow{"held", text},
      FactRow{"held_bytes", number},
      FactRow{"high", number},
      FactRow{"host_waits_per_step", number},
      FactRow{"issued", table},
      FactRow{"kept_bytes", number},
      FactRow{"kernel", text},
      FactRow{"keys", number},
      FactRow{"known", text},
      FactRow{"largest_bytes", number},
      FactRow{"largest_input", number},
      FactRow{"last_line", text},
      FactRow{"last_quarter_nats", number},
      FactRow{"last_step", number, largest},
      FactRow{"late", list, united},
      FactRow{"later", number},
      FactRow{"later_steps", number},
      FactRow{"law", text},
      FactRow{"laws", list},
      FactRow{"layers", list},
      FactRow{"layers_wrong", number},
      FactRow{"least", number},
      FactRow{"levels", list},
      FactRow{"limit", number},
      FactRow{"limit_bytes", number},
      FactRow{"line", text},
      FactRow{"lines", text},
      FactRow{"longest_computation_ms", number},
      FactRow{"longest_gap_ms", number},
      FactRow{"loss", text},
      FactRow{"lost", number},
      FactRow{"low", number},
      FactRow{"measure", text},
      FactRow{"measured_bytes", number},
      FactRow{"meetings", table},
      FactRow{"memory", text},
      FactRow{"message", text},
      FactRow{"micro", number},
      FactRow{"missing", text},
      FactRow{"more", text},
      FactRow{"most", number},
      FactRow{"n_layers", number},
      FactRow{"narrowed", text},
      FactRow{"noise", number},
      FactRow{"noise_nats", number},
      FactRow{"not_finite", truth},
      FactRow{"observe", number},
      FactRow{"only", text, Merge::agreed},
      FactRow{"operation", text},
      FactRow{"operator", text},
      FactRow{"other", any},
      FactRow{"other_end", text},
      FactRow{"other_loss", text},
      FactRow{"others", any},
      FactRow{"own_tokens", number},
      FactRow{"param_count", number},
      FactRow{"params", list},
      FactRow{"parts", any, united},
      FactRow{"pattern", text},
      FactRow{"peak_bytes", number},
      FactRow{"peers", text},
      FactRow{"perturbed_from", number},
      FactRow{"placed", list, united},
      FactRow{"places", any},
      FactRow{"plain", number},
      FactRow{"plans", table},
      FactRow{"point", number},
      FactRow{"position", number},
      FactRow{"predicted_bytes", number},
      FactRow{"processes", any},
      FactRow{"prompt_tokens", number},
      FactRow{"quantity", text},
      FactRow{"raised_by", text},
      FactRow{"raised_from", text},
      FactRow{"reach_nats", number},
      FactRow{"reader", text},
      FactRow{"reason", text},
      FactRow{"reductions_per_step", number},
      FactRow{"requested", any},
      FactRow{"resumed_after_step", any, united},
      FactRow{"row_count", number, total},
      FactRow{"rows_in_all", number, total},
      FactRow{"runs", any},
      FactRow{"seam", text},
      FactRow{"second", any},
      FactRow{"seen", any},
      FactRow{"seen_by", any, united},
      FactRow{"seq_len", number},
      FactRow{"sequences", list, Merge::agreed},
      FactRow{"share", number},
      FactRow{"share_of_budget", number},
      FactRow{"share_of_elements", number},
      FactRow{"share_of_params", number},
      FactRow{"signal", text},
      FactRow{"silent", text},
      FactRow{"since", text},
      FactRow{"since_movement_ms", number},
      FactRow{"sizes", number},
      FactRow{"skipped", number},
      FactRow{"stackless", text},
      FactRow{"stacks", table},
      FactRow{"standard_error_nats", number},
      FactRow{"state", text},
      FactRow{"static_graph", truth},
      FactRow{"steps", any},
      FactRow{"still_ms", number},
      FactRow{"tensor", text},
      FactRow{"tensors", list, united},
      FactRow{"there", text},
      FactRow{"thread", text},
      FactRow{"tie", text},
      FactRow{"tie_rows", number, total},
      FactRow{"tokens", number},
      FactRow{"told_by", text},
      FactRow{"total", number},
      FactRow{"trial", list},
      FactRow{"trials", list},
      FactRow{"twin", text},
      FactRow{"twin_ms", number},
      FactRow{"unfinished", any},
      FactRow{"unread", any},
      FactRow{"unread_flight", table},
      FactRow{"varying", number},
      FactRow{"wait_ends_with", text},
      FactRow{"waited_ms", number},
      FactRow{"waiting", text},
      FactRow{"waits", table},
      FactRow{"wanted", any},
      FactRow{"way_to_stacks", text},
      FactRow{"what", text},
      FactRow{"where", text},
      FactRow{"which", text},
      FactRow{"who", list},
      FactRow{"without_gradient", truth},
      FactRow{"words", text},
      FactRow{"world", number},
      FactRow{"written_by", text},
      FactRow{"wrong", number},
      FactRow{"wrong_columns", number},
      FactRow{"wrong_elements", table},
      FactRow{"wrong_numbers", number},
      FactRow{"wrong_rows", number},
      FactRow{"wrong_steps", number},
  };
}();

[[nodiscard]] constexpr bool same_name(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

[[nodiscard]] constexpr bool is_fact(const char* name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (same_name(kFacts[i].name, name)) return true;
  }
  return false;
}

// A name of the table, checked by the compiler: finding.facts["row_count"].
class FactName {
 public:
  consteval FactName(const char* name) : name_(name) {  // NOLINT(google-explicit-constructor)
    if (!is_fact(name)) throw "harness/scenario/facts.h has no fact of this name";
  }
  [[nodiscard]] constexpr const char* name() const { return name_; }

 private:
  const char* name_;
};

class Facts {
 public:
  struct Entry {
    FactName name;
    nlohmann::json value;
  };

  Facts() = default;
  Facts(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) json_[entry.name.name()] = entry.value;
  }
  // Of a stored finding or a scenario: other names are kept.
  explicit Facts(nlohmann::json json) : json_(std::move(json)) {}

  nlohmann::json& operator[](FactName name) { return json_[name.name()]; }
  [[nodiscard]] bool contains(FactName name) const { return find(name.name()) != nullptr; }
  // REQUIRES: contains(name).
  [[nodiscard]] const nlohmann::json& at(FactName name) const { return json_.at(name.name()); }
  template <typename Value>
  [[nodiscard]] Value value(FactName name, const Value& otherwise) const {
    return json_.is_object() ? json_.value(name.name(), otherwise) : otherwise;
  }
  void erase(FactName name) { json_.erase(name.name()); }
  void erase_empty_lists();

  // The first names of a list that a sentence can hold, and in NAME_more how many are left out.
  void put_some(FactName name, const std::vector<std::string>& names);

  // The fact of `other`, if it has one.
  void take(const std::string& name, const Facts& other);
  // By a name that is known when the program runs: nullptr where there is none.
  [[nodiscard]] const nlohmann::json* find(const std::string& name) const;
  [[nodiscard]] bool empty() const { return json_.empty(); }
  [[nodiscard]] const nlohmann::json& json() const { return json_; }
  // "" if all values are of their kind, else the first that is not: "row_count: found [1], wanted a number".
  [[nodiscard]] std::string misfit() const;

  bool operator==(const Facts&) const = default;

 private:
  nlohmann::json json_ = nlohmann::json::object();
};

void to_json(nlohmann::json& json, const Facts& facts);
void from_json(const nlohmann::json& json, Facts& facts);

[[nodiscard]] const char* name_of(FactKind kind);  // "a number"

}  // namespace harness
