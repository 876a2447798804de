// What earlier nights say of tonight's cases: how long they took, and that the machine could run them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/scenario/case.h"
#include "harness/store/store.h"

namespace harness::cli {

inline constexpr const char* kAcceptMachine = "accept-machine";

class Past {
 public:
  // Nothing is known where there is no database yet. Throws: nsa::Error.
  explicit Past(const std::string& database);

  // The run in which the machine could still do it; "" where none is known, or the machine was accepted as it is since.
  [[nodiscard]] std::string could_in(const std::string& history_id) const;

  // What the case took when it last ran, else what its scenario allows.
  [[nodiscard]] double expected_seconds(const Case& the_case, const std::string& history_id) const;
  // The most that it may take: a quarter more than when it last ran, and what its scenario allows.
  [[nodiscard]] double most_seconds(const Case& the_case, const std::string& history_id) const;

 private:
  [[nodiscard]] double taken(const Case& the_case, const std::string& history_id) const;

  std::unique_ptr<Store> store_;
  std::int64_t accepted_ms_ = 0;
};

}  // namespace harness::cli
