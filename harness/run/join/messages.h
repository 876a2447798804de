// What an agent and its controller say to each other: lines of a word and what belongs to it. Both sides read them as those of a
// stranger: sizes and ranges are checked before anything is made of them.
//
//   agent                                  controller
//   join {JSON}                        ->
//                                      <-  start {JSON}, or: refused WHY
//   started PID, or: refused WHY       ->
//   line TEXT | long TEXT | half TEXT  ->                     what the rank wrote on fd 3 (LineReader's pieces)
//   state LETTER CPU_MS                ->                     twice a second
//                                      <-  look NUMBER
//   look {JSON}                        ->                     an Observation, from outside
//                                      <-  signal NUMBER process|group
//   ended {JSON}                       ->                     nothing comes after it
//                                      <-  end                the agent's work is done
//                                      <-  alive              every second
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/rows.h"
#include "harness/run/looks/machine_state.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

inline constexpr std::int64_t kAliveMs =
    1'000;  // between two lines of a controller that has nothing else to say
inline constexpr std::size_t kMaxJoinBytes = 4096;  // of a line of a stranger
inline constexpr std::size_t kMaxMessageBytes = std::size_t{5}
                                                << 20;  // a line of evidence and a word

struct Message {
  std::string_view word;
  std::string_view rest;
};
[[nodiscard]] Message message_of(std::string_view line);

[[nodiscard]] bool is_numeric_address(const std::string& text);  // of IPv4

struct Join {
  std::string token;  // the agent's half
  int rank = 0;
  int world = 1;
  std::string address;  // in numbers: where peers reach this rank
  int port = 0;         // of rank 0: its store's
  std::string host;     // as people call it
  std::string machine;  // the running kernel's id: the same on hosts that are one machine
  std::string sources;  // built_source_hash()
};

struct Start {
  std::string token;  // the controller's half
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string out_path;
  std::string err_path;
  std::string probe;        // a file that is to be written, beside the case's
  std::int64_t now_ms = 0;  // since the case began
  std::int64_t link_deadline_ms = 0;
  std::int64_t term_grace_ms = 0;
  std::string store;  // rank 0's address
  int port = 0;
};

struct End {
  ExitStatus status;
  MemoryKill memory = MemoryKill::none;
  bool by_launcher = false;
};

[[nodiscard]] std::string join_text(const Join& join);
[[nodiscard]] std::string start_text(const Start& start);
[[nodiscard]] std::string end_text(const End& end);
[[nodiscard]] std::string look_text(const Observation& seen);

// Of what follows the word. Throws: nsa::Error.
[[nodiscard]] Join read_join(std::string_view text);
[[nodiscard]] Start read_start(std::string_view text);
[[nodiscard]] End read_end(std::string_view text);
[[nodiscard]] Observation read_look(std::string_view text);
[[nodiscard]] std::int64_t read_number(std::string_view text, std::int64_t low, std::int64_t high);

}  // namespace harness
