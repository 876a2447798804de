#include "tests/checks/planted_data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "harness/scenario/scenario_fields.h"
#include "nsa/base/fields_read.h"
#include "nsa/base/text.h"
#include "tests/checks/evidence_rows.h"
#include "tests/fakes/where.h"

namespace fixtures {
namespace {

using nlohmann::json;
using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

// ---- values ---------------------------------------------------------------------------------------------------------

struct NumberName {
  const char* name;
  std::int64_t number;
};
constexpr std::array kNumberNames = {NumberName{"twin", kTwin},
                                     NumberName{"controller", kController},
                                     NumberName{"launcher", harness::kLauncher},
                                     NumberName{"SIGABRT", SIGABRT},
                                     NumberName{"SIGBUS", SIGBUS},
                                     NumberName{"SIGFPE", SIGFPE},
                                     NumberName{"SIGHUP", SIGHUP},
                                     NumberName{"SIGINT", SIGINT},
                                     NumberName{"SIGKILL", SIGKILL},
                                     NumberName{"SIGSEGV", SIGSEGV},
                                     NumberName{"SIGTERM", SIGTERM}};

std::int64_t whole_number(const YamlNode& node, const std::string& what) {
  if (node.kind == YamlNode::Kind::scalar && !node.quoted) {
    for (const auto& [name, number] : kNumberNames) {
      if (node.scalar == name) return number;
    }
  }
  return nsa::read_int(node, what);
}

json real_number(const YamlNode& node, const std::string& what) {
  for (const char* name : {"NaN", "Infinity", "-Infinity"}) {
    if (node.scalar == name) return name;  // as a Real travels
  }
  return nsa::read_double(node, what);
}

// What follows from how it is written.
json free_value(const YamlNode& node) {
  json value;
  if (node.kind == YamlNode::Kind::map) {
    value = json::object();
    for (const auto& [key, inner] : node.entries) value[key] = free_value(inner);
  } else if (node.kind == YamlNode::Kind::sequence) {
    value = json::array();
    for (const YamlNode& inner : node.items) value.push_back(free_value(inner));
  } else if (node.kind == YamlNode::Kind::scalar) {
    value = node.quoted ? json(node.scalar) : json::parse(node.scalar, nullptr, false);
    if (value.is_discarded()) value = node.scalar;
  }
  return value;
}

json value_like(const json& pattern, const YamlNode& node, const std::string& what);

// `out` is filled where the map has a key. Throws: Error at a key that `pattern` does not have.
json fields_like(const json& pattern, const YamlNode& node, const std::string& what) {
  (void)YamlMap(node, what);  // refuses what is no map
  std::vector<std::string> known;
  for (const auto& [key, value] : pattern.items()) known.push_back(key);
  json fields = json::object();
  for (const auto& [key, value] : node.entries) {
    if (!pattern.contains(key))
      nsa::throw_unknown_name(value.where, "field of " + what, key, known);
    fields[key] = value_like(pattern[key], value, what + "." + key);
  }
  return fields;
}

// The elements of a list: an empty one tells nothing of them.
json list_like(const YamlNode& node, const std::string& what) {
  if (node.kind != YamlNode::Kind::sequence) {
    throw Error(node.where, what + ": found " + nsa::found_text(node) + ", wanted a list");
  }
  json list = json::array();
  for (const YamlNode& item : node.items) {
    if (what.ends_with(".threads")) {
      list.push_back(fields_like(harness::ThreadStack{}, item, "thread"));
    } else if (what.ends_with(".children")) {
      list.push_back(fields_like(harness::ChildProcess{}, item, "child"));
    } else {
      list.push_back(free_value(item));
    }
  }
  return list;
}

json value_like(const json& pattern, const YamlNode& node, const std::string& what) {
  if (pattern.is_boolean()) return nsa::read_bool(node, what);
  if (pattern.is_number_integer()) return whole_number(node, what);
  if (pattern.is_number_float()) return real_number(node, what);
  if (pattern.is_array()) return list_like(node, what);
  if (pattern.is_object()) return fields_like(pattern, node, what);
  if (pattern == json(harness::Reach::unknown)) {
    if (node.scalar == "unknown") return pattern;
    return nsa::read_bool(node, what);
  }
  return nsa::read_text(node, what);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

constexpr std::int64_t kUsualTime = 100;

// A row of a kind with the values that it begins with, and who wrote it when.
json new_row(const YamlNode& kind, const std::string& what) {
  const std::string wanted = nsa::read_text(kind, what);
  std::vector<std::string> known;
  json pattern;
  harness::Evidence none;
  each_kind(none, [&](std::string_view name, auto& rows) {
    known.emplace_back(name);
    if (name != wanted) return;
    pattern = typename std::remove_cvref_t<decltype(rows)>::value_type{}.row;
  });
  if (pattern.is_null()) nsa::throw_unknown_name(kind.where, what, wanted, known);
  pattern["process"] = 0;
  pattern["t_ms"] = kUsualTime;
  return pattern;
}

using JsonRows = std::vector<json>;

// Lets `change` see and change all rows of a kind.
template <typename Change>
void change_rows_of(Healthy& h, const std::string& kind, const Change& change) {
  each_kind(h.evidence, [&](std::string_view name, auto& rows) {
    if (name != kind) return;
    using From = typename std::remove_cvref_t<decltype(rows)>::value_type;
    JsonRows list;
    for (const From& from : rows) {
      json& row = list.emplace_back(from.row);
      row["process"] = from.process;
      row["t_ms"] = from.t_ms;
    }
    change(list);
    rows.clear();
    for (json& row : list) {
      From& from = rows.emplace_back();
      from.process = row.at("process");
      from.t_ms = row.at("t_ms");
      row.erase("process");
      row.erase("t_ms");
      from.row = row.template get<decltype(from.row)>();
    }
  });
}

// "a*c" is all that begins with a and ends with c.
bool fits(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  text.remove_prefix(star);
  for (;; text.remove_prefix(1)) {
    if (fits(pattern, text)) return true;
    if (text.empty()) return false;
  }
}

// "2..5", "..5" and "2..": both ends belong to it.
struct WholeRange {
  std::int64_t first = std::numeric_limits<std::int64_t>::min();
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
};
std::optional<WholeRange> range_of(const YamlNode& node) {
  const std::size_t dots = node.scalar.find("..");
  if (node.kind != YamlNode::Kind::scalar || node.quoted || dots == std::string::npos) return {};
  WholeRange range;
  for (const auto& [text, end] : {std::pair{node.scalar.substr(0, dots), &range.first},
                                  std::pair{node.scalar.substr(dots + 2), &range.last}}) {
    if (text.empty()) continue;
    const auto number = nsa::parse_int(text);
    if (!number) throw Error(node.where, "found " + node.scalar + ", wanted a range such as 2..5");
    *end = *number;
  }
  return range;
}

// What a row must have to be meant.
class Where {
 public:
  Where(const json& pattern, const YamlNode* node) {
    if (node == nullptr) return;
    (void)YamlMap(*node, "where");
    std::vector<std::string> known;
    for (const auto& [key, value] : pattern.items()) known.push_back(key);
    for (const auto& [key, value] : node->entries) {
      if (!pattern.contains(key))
        nsa::throw_unknown_name(value.where, "field of where", key, known);
      Condition condition{key, {}};
      const bool is_list = value.kind == YamlNode::Kind::sequence;
      for (const YamlNode& one : is_list ? value.items : std::vector{value}) {
        condition.any.push_back(test_of(pattern[key], key, one));
      }
      conditions_.push_back(std::move(condition));
    }
  }

  [[nodiscard]] bool holds(const json& row) const {
    return std::all_of(conditions_.begin(), conditions_.end(), [&](const Condition& condition) {
      const json& value = row.at(condition.field);
      return std::any_of(condition.any.begin(), condition.any.end(), [&](const Test& test) {
        return test(value);
      });
    });
  }

 private:
  using Test = std::function<bool(const json&)>;
  struct Condition {
    std::string field;
    std::vector<Test> any;
  };

  static Test test_of(const json& pattern, const std::string& field, const YamlNode& node) {
    if (field == "process" && node.scalar == "ranks") {
      return [](const json& value) { return value >= 0; };
    }
    if (pattern.is_number_integer()) {
      if (const auto range = range_of(node)) {
        return [range](const json& value) { return value >= range->first && value <= range->last; };
      }
    }
    const json wanted = value_like(pattern, node, "where." + field);
    if (!wanted.is_string()) return [wanted](const json& value) { return value == wanted; };
    return [text = wanted.get<std::string>()](const json& value) {
      return value.is_string() && fits(text, value.get_ref<const std::string&>());
    };
  }

  std::vector<Condition> conditions_;
};

// {field} in a text of the row stands for what the row has there.
void fill_in(json& row, const json& fields) {
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) continue;
    std::string text = row[key];
    for (const auto& [name, other] : row.items()) {
      if (other.is_structured()) continue;
      const std::string slot = "{" + name + "}";
      for (std::size_t at = text.find(slot); at != std::string::npos; at = text.find(slot, at)) {
        const std::string by = other.is_string() ? other.get<std::string>() : other.dump();
        text.replace(at, slot.size(), by);
        at += by.size();
      }
    }
    row[key] = text;
  }
}

// What becomes of a row: `set`, `plus`, `times` and `append`.
class Edit {
 public:
  Edit(const json& pattern, YamlMap& map) {
    const auto fields = [&](const char* key) {
      const YamlNode* node = map.get(key);
      return node == nullptr ? json::object() : fields_like(pattern, *node, key);
    };
    set_ = fields("set");
    plus_ = fields("plus");
    times_ = fields("times");
    append_ = fields("append");
  }

  [[nodiscard]] bool is_empty() const {
    return set_.empty() && plus_.empty() && times_.empty() && append_.empty();
  }

  void apply(json& row) const {
    row.merge_patch(set_);
    fill_in(row, set_);
    for (const auto& [field, by] : plus_.items()) combine(row[field], by, std::plus<>());
    for (const auto& [field, by] : times_.items()) combine(row[field], by, std::multiplies<>());
    json appended = json::object();
    for (const auto& [field, more] : append_.items()) {
      if (row[field].is_array()) {
        row[field].insert(row[field].end(), more.begin(), more.end());
      } else {
        json filled = row;
        filled[field] = more;
        fill_in(filled, {{field, more}});
        appended[field] = row[field].get<std::string>() + filled[field].get<std::string>();
      }
    }
    row.update(appended);
  }

 private:
  template <typename Operation>
  static void combine(json& value, const json& by, Operation operation) {
    if (value.is_object()) {
      for (const auto& [key, inner] : by.items()) combine(value[key], inner, operation);
    } else if (value.is_number_integer()) {
      value = operation(value.get<std::int64_t>(), by.get<std::int64_t>());
    } else {
      const harness::Real sum = operation(value.get<harness::Real>(), by.get<harness::Real>());
      value = sum;
    }
  }

  json set_, plus_, times_, append_;
};

// ---- the scenario ---------------------------------------------------------------------------------------------------

template <typename Rows, typename Config>
void set_members(const Rows& rows, const YamlNode& node, const std::string& path, Config& config);

template <typename Config, typename Value>
void set_member(const nsa::Field<Config, Value>& field, YamlMap& map, Config& config) {
  if (const YamlNode* node = map.get(field.key)) {
    nsa::read_value(*node, map.name(field.key), field.accepts, config.*field.member);
  }
}
template <typename Member, typename Rows, typename Config>
void set_member(const nsa::Part<Member, Rows>& part, YamlMap& map, Config& config) {
  const YamlNode* node = map.get(part.key);
  if (node == nullptr) return;
  auto& member = part.of(config);
  if constexpr (!nsa::kOptional<std::remove_cvref_t<decltype(member)>>) {
    set_members(part.rows, *node, map.name(part.key), member);
  } else {
    if (!member) member.emplace();
    set_members(part.rows, *node, map.name(part.key), *member);
  }
}
template <typename Config>
void set_member(const nsa::ByHand& row, YamlMap& map, Config& config) {
  const std::string key = row.key;
  if constexpr (std::same_as<Config, nsa::ParallelConfig>) {
    if (key != "layers") return;
    if (const YamlNode* node = map.get(key)) {
      config.checkpoint_layers = nsa::read_ints(*node, map.name(key));
    }
  } else if constexpr (std::same_as<Config, harness::Scenario>) {
    if (key != "route") return;
    const YamlNode* node = map.get(key);
    if (node == nullptr) return;
    (void)YamlMap(*node, "route");
    for (const auto& [seam, name] : node->entries) {
      if (name.kind == YamlNode::Kind::null) {
        config.route.erase(seam);
      } else {
        config.route[seam] = nsa::read_text(name, "route." + seam);
      }
    }
  }
}

template <typename Rows, typename Config>
void set_members(const Rows& rows, const YamlNode& node, const std::string& path, Config& config) {
  YamlMap map(node, path);
  nsa::for_each_row(rows, [&](const auto& row) { set_member(row, map, config); });
  map.finish();
}

// Its keys are paths of a scenario file. What is not named stays; nothing is judged, as a defect may be what no file may say.
std::function<void(Healthy&)> change_of_scenario(const YamlNode& node) {
  YamlNode root;
  root.kind = YamlNode::Kind::map;
  root.where = node.where;
  (void)YamlMap(node, "scenario");
  for (const auto& [path, value] : node.entries) nsa::set_yaml_path(root, path, value);
  const auto change = [root](harness::Scenario& scenario) {
    set_members(harness::kScenarioFields, root, "", scenario);
  };
  harness::Scenario tried;
  change(tried);  // refused when the file is read
  return [change](Healthy& h) { change(h.evidence.the_case.scenario); };
}

// ---- changes --------------------------------------------------------------------------------------------------------

using Spoil = std::function<void(Healthy&)>;

[[noreturn]] void throw_no_row(const YamlNode& node, const std::string& kind) {
  throw Error(node.where, "found no row of kind " + kind + " that is as wanted here");
}

Spoil change_of_rows(const YamlNode& node, YamlMap& map) {
  const YamlNode& kind = map.require("rows");
  const json pattern = new_row(kind, "rows");
  const Where where(pattern, map.get("where"));
  const Edit edit(pattern, map);
  if (edit.is_empty()) throw Error(node.where, "rows: found no set, plus, times or append");
  return [=](Healthy& h) {
    bool found = false;
    change_rows_of(h, kind.scalar, [&](JsonRows& rows) {
      for (json& row : rows) {
        if (!where.holds(row)) continue;
        edit.apply(row);
        found = true;
      }
    });
    if (!found) throw_no_row(kind, kind.scalar);
  };
}

// Of one kind, or of each of a list.
Spoil removal_of_rows(YamlMap& map) {
  const YamlNode& kinds = map.require("remove");
  const YamlNode* node = map.get("where");
  std::vector<std::pair<YamlNode, Where>> removed;
  const bool is_list = kinds.kind == YamlNode::Kind::sequence;
  for (const YamlNode& kind : is_list ? kinds.items : std::vector{kinds}) {
    removed.emplace_back(kind, Where(new_row(kind, "remove"), node));
  }
  return [removed](Healthy& h) {
    for (const auto& [kind, where] : removed) {
      change_rows_of(h, kind.scalar, [&](JsonRows& rows) {
        if (std::erase_if(rows, [&](const json& row) { return where.holds(row); }) > 0) return;
        throw_no_row(kind, kind.scalar);
      });
    }
  };
}

// Of rows that are there.
Spoil copies_of_rows(YamlMap& map) {
  const YamlNode& kind = map.require("copy");
  const json pattern = new_row(kind, "copy");
  const Where where(pattern, map.get("where"));
  const Edit edit(pattern, map);
  return [=](Healthy& h) {
    change_rows_of(h, kind.scalar, [&](JsonRows& rows) {
      JsonRows copies;
      for (const json& row : rows) {
        if (where.holds(row)) edit.apply(copies.emplace_back(row));
      }
      if (copies.empty()) throw_no_row(kind, kind.scalar);
      rows.insert(rows.end(), copies.begin(), copies.end());
    });
  };
}

// 1..3 is [1, 2, 3].
std::vector<json> values_of_each(const json& pattern,
                                 const YamlNode& node,
                                 const std::string& what) {
  std::vector<json> values;
  if (const auto range = range_of(node)) {
    for (std::int64_t i = range->first; i <= range->last; ++i) values.emplace_back(i);
    return values;
  }
  if (node.kind != YamlNode::Kind::sequence) {
    throw Error(node.where, what + ": found " + nsa::found_text(node) + ", wanted a list");
  }
  for (const YamlNode& item : node.items) values.push_back(value_like(pattern, item, what));
  return values;
}

// One row, or one for each choice of the values in `each`.
Spoil addition_of_rows(YamlMap& map) {
  const YamlNode& kind = map.require("add");
  const json pattern = new_row(kind, "add");
  json fields = json::object();
  if (const YamlNode* row = map.get("row")) fields = fields_like(pattern, *row, kind.scalar);
  JsonRows added = {pattern};
  added.front().merge_patch(fields);
  if (const YamlNode* each = map.get("each")) {
    (void)YamlMap(*each, "each");
    for (const auto& [field, node] : each->entries) {
      if (!pattern.contains(field)) {
        throw Error(node.where, "each: found " + field + ", wanted a field of " + kind.scalar);
      }
      JsonRows more;
      for (const json& row : added) {
        for (const json& value : values_of_each(pattern[field], node, "each." + field)) {
          more.push_back(row);
          more.back()[field] = value;
        }
      }
      added = std::move(more);
    }
  }
  for (json& row : added) fill_in(row, fields);
  return [=](Healthy& h) {
    change_rows_of(h, kind.scalar, [&](JsonRows& rows) {
      rows.insert(rows.end(), added.begin(), added.end());
    });
  };
}

// By its name the changes of each case that stands above.
using Earlier = std::map<std::string, Spoil>;

Spoil like_of(const YamlNode& name, const Earlier& earlier) {
  std::vector<std::string> known;
  for (const auto& [one, spoil] : earlier) known.push_back(one);
  return earlier.at(nsa::read_name(name, "like", known));
}

// Looks from outside at these ranks, 30 s after the begin and every 2 s from then on. Each look shows what the one before it
// showed, but for what it says itself.
Spoil looks_at(YamlMap& map) {
  const YamlNode& ranks = map.require("looks");
  const std::vector<int> observed = nsa::read_ints(ranks, "looks");
  harness::Observation row;
  row.threads.resize(1);
  harness::ThreadStack& main = row.threads.front();
  main.thread = "main";
  std::string child = "cc1plus";
  std::vector<harness::Observation> looks;
  for (const YamlNode& node : map.require("at").items) {
    YamlMap look(node, "at");
    look.read("state", row.state);
    look.read("cpu_ms", row.cpu_ms);
    look.read("children_cpu_ms", row.children_cpu_ms);
    look.read("disk_bytes", row.disk_bytes);
    look.read("device_busy_percent", row.device_busy_percent);
    look.read("frames", main.frames);
    look.read("call", main.call);
    look.read("timed", main.timed);
    look.read("switches", main.switches);
    look.read("child", child);
    look.finish();
    main.state = row.state;
    if (row.children_cpu_ms > 0) row.children = {{child, 77, "R", 0}};
    row.look = static_cast<int>(looks.size());
    looks.push_back(row);
  }
  return [observed, looks](Healthy& h) {
    for (const int rank : observed) {
      for (harness::Observation look : looks) {
        look.process_observed = rank;
        put(h.evidence.observations, kController, look, 30'000 + 2'000 * look.look);
      }
    }
  };
}

Spoil one_change(const YamlNode& node, const Earlier& earlier) {
  YamlMap map(node, "");
  Spoil spoil;
  if (map.get("rows") != nullptr) {
    spoil = change_of_rows(node, map);
  } else if (map.get("remove") != nullptr) {
    spoil = removal_of_rows(map);
  } else if (map.get("copy") != nullptr) {
    spoil = copies_of_rows(map);
  } else if (map.get("add") != nullptr) {
    spoil = addition_of_rows(map);
  } else if (const YamlNode* scenario = map.get("scenario")) {
    spoil = change_of_scenario(*scenario);
  } else if (map.get("looks") != nullptr) {
    spoil = looks_at(map);
  } else if (const YamlNode* like = map.get("like")) {
    spoil = like_of(*like, earlier);
  } else if (const YamlNode* use = map.get("use")) {
    spoil = fixture_named(*use, map.get("with"));
  } else {
    throw Error(node.where,
                "found no rows, add, copy, remove, scenario, looks, like or use in a change");
  }
  map.finish();
  return spoil;
}

Spoil all_changes(const YamlNode& list, const Earlier& earlier) {
  if (list.kind != YamlNode::Kind::sequence) {
    throw Error(list.where, "found " + nsa::found_text(list) + ", wanted a list of changes");
  }
  std::vector<Spoil> changes;
  for (const YamlNode& node : list.items) changes.push_back(one_change(node, earlier));
  return [changes](Healthy& h) {
    for (const Spoil& change : changes) change(h);
  };
}

// ---- cases ----------------------------------------------------------------------------------------------------------

struct Sizes {
  int ranks = 2;
  int steps = 1;
  std::string kind = "training";

  void read(const YamlNode* node) {
    if (node == nullptr) return;
    YamlMap map(*node, "healthy");
    map.read("ranks", ranks);
    map.read("steps", steps);
    map.read("kind", kind);
    map.finish();
  }
};

Verdict verdict_named(const YamlNode& node) {
  constexpr std::array kVerdicts = {Verdict::pass, Verdict::fail, Verdict::inconclusive};
  std::vector<std::string> names;
  for (const Verdict verdict : kVerdicts) names.emplace_back(harness::name_of(verdict));
  const std::string name = nsa::read_name(node, "gives", names);
  const auto at = std::find(names.begin(), names.end(), name) - names.begin();
  return kVerdicts.at(static_cast<std::size_t>(at));
}

void read_given(const YamlNode& node, Planted& planted) {
  planted.site = "{}";
  planted.verdict = Verdict::fail;
  if (node.kind == YamlNode::Kind::scalar) {
    planted.verdict = verdict_named(node);
    return;
  }
  YamlMap map(node, "gives");
  if (const YamlNode* verdict = map.get("verdict")) planted.verdict = verdict_named(*verdict);
  map.read("code", planted.code);
  if (const YamlNode* site = map.get("site")) planted.site = free_value(*site).dump();
  map.finish();
}

Planted read_case(const YamlNode& node, const std::string& check, Sizes sizes, Earlier& earlier) {
  YamlMap map(node, "case");
  Planted planted;
  planted.check = check;
  planted.name = nsa::read_text(map.require("name"), "name");
  sizes.read(map.get("healthy"));
  planted.ranks = sizes.ranks;
  planted.steps = sizes.steps;
  planted.kind = sizes.kind;
  planted.spoil = kLeaveAsItIs;
  if (const YamlNode* change = map.get("change")) planted.spoil = all_changes(*change, earlier);
  earlier[planted.name] = planted.spoil;
  read_given(map.require("gives"), planted);
  map.finish();
  return planted;
}

}  // namespace

std::function<void(Healthy&)> changes_of(const YamlNode& list) {
  return all_changes(list, {});
}

std::vector<Planted> planted_in_file(const std::string& path) {
  const YamlNode root = nsa::load_yaml(path);
  YamlMap map(root, "");
  const YamlNode& check = map.require("check");
  const std::string name = nsa::read_text(check, "check");
  if (std::filesystem::path(path).stem() != name) {
    throw Error(check.where, "check: found " + name + ", wanted the name of the file");
  }
  Sizes sizes;
  sizes.read(map.get("healthy"));
  Earlier earlier;
  std::vector<Planted> cases;
  for (const YamlNode& node : map.require("cases").items) {
    cases.push_back(read_case(node, name, sizes, earlier));
  }
  map.finish();
  return cases;
}

std::vector<Planted> planted_in_data() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(fakes::tree() + "/tests/checks/planted")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Planted> all;
  for (const std::string& path : paths) {
    for (Planted& planted : planted_in_file(path)) all.push_back(std::move(planted));
  }
  return all;
}

}  // namespace fixtures
