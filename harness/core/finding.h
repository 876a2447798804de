// What a check says: a verdict with the values it measured, and findings that name a failure and its place.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/rows.h"

namespace harness {

enum class Verdict { pass, inconclusive, fail };  // in the order of severity
enum class Role { initiating, cascade, teardown, unknown };
enum class Status { established, supported, hypothesis, unknown };
enum class Outcome { pass, fail, hang, slow, crash, oom, skip, error, inconclusive, xfail, xpass };

// Where. Only what is known is set; layers, ranks, heads and rows count from 0; steps from 1. `param` is the name without
// "blocks.N.", "attn." and ".weight" ("W_K_cmp").
struct Site {
  std::vector<int> layers;
  std::string branch;  // cmp, sel, win
  std::string param;
  std::string op;  // a seam's name, or optimizer, softmax, ...
  std::vector<int> heads;
  std::vector<int> rows;  // query positions
  std::vector<int> ranks;
  std::optional<std::int64_t> step;
  std::optional<int> bucket;
  std::optional<std::int64_t> sequence;
  std::string phase;
  nlohmann::json detail = nlohmann::json::object();

  bool operator==(const Site&) const = default;
  [[nodiscard]] std::string text()
      const;  // "layer 3, branch sel, rank 1": for people; patterns derived from heads and rows
};
void to_json(nlohmann::json& json, const Site& site);  // unset members are left out
void from_json(const nlohmann::json& json, Site& site);

struct Finding {
  std::string code;  // of the table in SPEC 6
  Site site;
  std::string statement;  // what happened
  std::string ruled_out;  // what it is not, and why that is known
  std::string next_action;
  Role role = Role::unknown;
  Status status = Status::supported;
};

struct Measured {
  std::string name;  // unit in the name
  Real value;
  std::optional<Real> limit;
};

struct CheckResult {
  std::string check;
  Verdict verdict = Verdict::inconclusive;
  std::string reason;
  std::vector<Measured> measured;
  std::vector<Finding> findings;
};

void to_json(nlohmann::json& json, const Finding& finding);
void from_json(const nlohmann::json& json, Finding& finding);
void to_json(nlohmann::json& json, const Measured& measured);
void from_json(const nlohmann::json& json, Measured& measured);
void to_json(nlohmann::json& json, const CheckResult& result);
void from_json(const nlohmann::json& json, CheckResult& result);

[[nodiscard]] const char* name_of(Verdict value);  // "pass"
[[nodiscard]] const char* name_of(Role value);     // "initiating"
[[nodiscard]] const char* name_of(Status value);   // "supported"
[[nodiscard]] const char* name_of(Outcome value);  // "PASS"
[[nodiscard]] std::optional<Outcome> outcome_from(std::string_view name);

}  // namespace harness
