// What a check says: a verdict with the values it measured, and findings that name a failure and its place.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/evidence/rows.h"
#include "harness/scenario/outcome.h"
#include "harness/scenario/site.h"

namespace harness {

enum class Verdict { pass, inconclusive, fail };  // in the order of severity
enum class Role { initiating, cascade, teardown, unknown };
enum class Status { supported, hypothesis };
// What could not be judged because of a finding.
struct NotJudged {
  std::string check;
  std::string what;  // "gradient rows of rank 1, step 3"
  Site site;
};

struct Finding {
  std::string code;     // of the table in harness/judge/codes
  std::string variant;  // the situation: which sentences below its code tell it
  Site site;
  Facts facts;        // named numbers, names and lists of the sentences
  std::string check;             // that gave it
  // Made of code, variant, site and facts by worded():
  std::string statement;  // what happened
  std::string
      ruled_out;  // what it is not, and the evidence for that; "" where nothing was ruled out
  std::string next_action;
  // Given by assign_roles():
  Role role = Role::unknown;
  Status status = Status::supported;
  int number = 0;   // in the judgement, from 1
  int follows = 0;  // the number of the finding that it follows from
  std::string tie;  // what ties it to that one
  std::vector<NotJudged> not_judged;
};

struct Measured {
  std::string name;  // unit in the name
  Real value;
  std::optional<Real> limit;
};

struct Evidence;

// A recorded fact that does not follow from the others, or from which others do not follow. See judge/unused_facts.h.
struct Departed {
  std::string what;    // "q in rank_0/step_1/attention_layer_0.safetensors"
  std::string writer;  // the same for all facts that the same lines of a recorder write: "q of attention_layer"
  // Writes what follows from the others; none where nothing does.
  std::function<void(Evidence&)> put_right = {};
  bool is_report = false;  // it tells what is on record elsewhere, and nothing is computed from it
};

struct CheckResult {
  std::string check;
  Verdict verdict = Verdict::inconclusive;
  std::string reason;
  std::vector<Measured> measured;
  std::vector<Finding> findings;
  std::vector<NotJudged> not_judged = {};  // what lacked evidence; of the running judgement only
  std::vector<Departed> departed = {};     // of the running judgement only
};

// "GRAD.MISSING @ layer 3, rank 1"; the code alone where no place is known.
[[nodiscard]] std::string title_of(const std::string& code, const Site& site);

void to_json(nlohmann::json& json, const NotJudged& lacking);
void from_json(const nlohmann::json& json, NotJudged& lacking);
// Unset members are left out. Sentences are stored as they were, and made anew when they are read where their words are known.
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
