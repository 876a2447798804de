// Whether a card itself may be why a command died: what NVIDIA's driver and the log of the kernel tell that was not so when the
// command began. Nothing is asked on a machine without that driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/rows.h"
#include "harness/run/processes/spawn_process.h"

namespace harness::cli {

struct CardHealth {
  std::string name;     // "card 0 (NVIDIA H100 80GB HBM3)", as nvidia-smi counts
  std::string address;  // of PCI, as the kernel's log has it: "0000:17:00"
  std::optional<std::int64_t> uncorrected;  // errors of its memory since the driver was loaded
  bool remap_pending = false;               // of rows of its memory, by the next reset
  bool slowed = false;                      // by its hardware, for heat or power
  bool hot = false;
};

// Newer drivers call `events` what older ones call `throttle`.
[[nodiscard]] std::vector<std::string> health_fields(const std::string& reasons);
// Of nvidia-smi, --query-gpu with these fields as CSV without header and units. What is not of that form is left out.
[[nodiscard]] std::vector<CardHealth> read_card_health(const std::string& csv);

struct Xid {  // an error of a card, as the driver numbers it
  std::string address;
  std::int64_t number = 0;
  std::string text;
};
// Of a line of the kernel's log: "NVRM: Xid (PCI:0000:17:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
[[nodiscard]] std::optional<Xid> xid_in(std::string_view line);

// kCardFact of each card that something is wrong with. `log`: what came into the kernel's log since `before`. `trouble`: why
// there is no `after`; "": there is.
[[nodiscard]] std::vector<Fact> card_facts(const std::vector<CardHealth>& before,
                                           const std::vector<CardHealth>& after,
                                           const std::vector<std::string>& log,
                                           const std::string& trouble);

// The cards from the moment that it is made.
class CardWatch {
 public:
  CardWatch();  // two seconds at most
  [[nodiscard]] bool has_cards() const { return !before_.empty(); }
  [[nodiscard]] std::vector<Fact> facts() const;  // the same

 private:
  std::vector<CardHealth> before_;
  Fd log_;  // of the kernel, behind what is in it; not open where this user may not read it
};

}  // namespace harness::cli
