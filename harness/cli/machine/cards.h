// Which cards CUDA shows to a process: what nvidia-smi tells, read with CUDA's rules for CUDA_VISIBLE_DEVICES. Pure: no
// command is run here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harness::cli {

struct Gpu {
  std::string name;
  std::int64_t memory_mib = 0;
  std::string id =
      "";  // GPU-... or MIG-...: names it to CUDA, whatever order CUDA counts the cards in

  int capability = 0;  // compute capability, 80 for 8.0; 0: not told

  [[nodiscard]] double memory_gib() const { return static_cast<double>(memory_mib) / 1024.0; }
};

// A card of the machine, and the instances that it is divided into (MIG); none: it is used whole.
struct Card {
  Gpu whole;
  bool divided = false;
  std::vector<Gpu> instances;
};

struct Cards {
  std::vector<Card> cards;
  std::string driver;
};

// Of what nvidia-smi prints as CSV: the fields of each line, without blanks around them.
[[nodiscard]] std::vector<std::vector<std::string>> csv_rows(const std::string& text);

inline const std::vector<std::string> kCardFields = {
    "name", "memory.total", "driver_version", "uuid", "mig.mode.current", "compute_cap"};
// `query`: of --query-gpu with the fields above as CSV without header and units; `list`: of `nvidia-smi -L`, which alone
// names the instances. What is not of that form is left out.
[[nodiscard]] Cards read_cards(const std::string& query, const std::string& list);

// What CUDA shows, in its order; `visible`: the value of CUDA_VISIBLE_DEVICES, nothing where it is not set. A number counts
// the cards, "GPU-..." and "MIG-..." are unique beginnings of ids. CUDA reads up to the first that it does not know, and
// never shows more than one instance.
[[nodiscard]] std::vector<Gpu> visible_cards(const std::vector<Card>& cards,
                                             const std::optional<std::string>& visible);

}  // namespace harness::cli
