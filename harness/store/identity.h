// Which cases of different runs are the same case, so that "new" and "fixed" compare like with like.
#pragma once

#include <string>

namespace harness {

struct Identity {
  std::string profile;     // "" for none
  std::string history_id;  // 16 hex digits: equal for the same case, whenever and wherever it ran
};

// From a case's JSON (case_to_json). The same case: the same scenario, profile, model, training, parallel configuration, route,
// fault and seed. Not part of it: how it is judged (checks, expect, known), what it may take (requires, budget), what it says
// of itself, and where its text lies. What has its default value does not count, so that a key that a later version adds does
// not make every case another one.
// Throws: nsa::Error.
[[nodiscard]] Identity identity_of(const std::string& case_json);

// Whether the case was run with a planted fault. False if the text is no description of a case.
[[nodiscard]] bool plants_fault(const std::string& case_json);

}  // namespace harness
