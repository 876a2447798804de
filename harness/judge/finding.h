// What a check says: a verdict with the values it measured, and findings that name a failure and its place.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/outcome.h"
#include "harness/core/rows.h"
#include "harness/core/site.h"

namespace harness {

enum class Verdict { pass, inconclusive, fail };  // in the order of severity
enum class Role { initiating, cascade, teardown, unknown };
enum class Status { established, supported, hypothesis, unknown };
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

}  // namespace harness
