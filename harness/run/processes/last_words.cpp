#include "harness/run/processes/last_words.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/evidence/evidence.h"
#include "harness/evidence/hosts.h"
#include "harness/evidence/raised.h"
#include "harness/run/looks/stacks_file.h"
#include "harness/run/processes/process_end.h"

namespace harness {
namespace {

std::optional<std::streamoff> bytes_of(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? std::nullopt : std::optional(static_cast<std::streamoff>(bytes));
}

std::vector<int> numbers_where(const std::map<int, Supervised>& ranks,
                               const std::function<bool(const Supervised&)>& holds) {
  std::vector<int> numbers;
  for (const auto& [number, rank] : ranks) {
    if (number != kLauncher && holds(rank)) numbers.push_back(number);
  }
  return numbers;
}

// Of several that were printed: the last one; beside others, which complain of the one that failed, the last that does not
// complain.
const WorkerError& own_error(const std::vector<const PrintedError*>& printed, bool beside_others) {
  const auto own = std::find_if(printed.rbegin(), printed.rend(), [&](const auto* one) {
    return !beside_others || raised_as(one->error).failure != Failure::communication;
  });
  return own == printed.rend() ? printed.back()->error : (*own)->error;
}

bool all_alike(const std::vector<const PrintedError*>& errors) {
  return std::all_of(errors.begin(), errors.end(), [&](const auto* one) {
    return nlohmann::json(one->error) == nlohmann::json(errors.front()->error);
  });
}

bool is_any(const Supervised& /*rank*/) {
  return true;
}

bool failed_by_itself(const Supervised& rank) {
  return rank.end && rank.end->signal == 0 && rank.end->exit_code != 0;
}

}  // namespace

void LastWords::find(const CommandTree& tree, const std::map<int, Supervised>& ranks) {
  constexpr std::size_t kMost = 256;  // processes, and files
  const std::vector<pid_t>& all = tree.processes();
  std::vector<pid_t> pids;
  for (const auto& [number, rank] : ranks) {
    const pid_t pid = rank.process->pid();
    pids.push_back(pid);
    if (!rank.lives() || stacks_[number].pid == pid) continue;
    const std::string path = stacks_file_of(pid);
    Fd file(path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.is_open()) stacks_[number] = {pid, std::move(file)};
  }
  for (std::size_t i = 0; i < all.size() && i < kMost; ++i) {
    for (const char* stream : {"/fd/1", "/fd/2"}) {
      std::error_code error;
      const std::string link = "/proc/" + std::to_string(all[i]) + stream;
      const std::string path = std::filesystem::read_symlink(link, error).string();
      if (error || is_of_record(path) || !std::filesystem::is_regular_file(path, error)) continue;
      auto at = std::find_if(printouts_.begin(), printouts_.end(), [&](const Printout& known) {
        return known.path == path;
      });
      if (at == printouts_.end()) {
        if (printouts_.size() == kMost + 2) continue;  // two are of the record
        at = printouts_.insert(at, Printout{path});
        at->from = bytes_of(path).value_or(0);
      }
      const pid_t owner = tree.owner(all[i], pids);
      for (const auto& [number, rank] : ranks) {
        if (rank.process->pid() == owner) at->ranks.insert(number);
      }
    }
  }
}

void LastWords::read() {
  for (const Printout& printout : printouts_) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(printout.path, error))
      continue;  // the command's own doing
    std::ifstream stream(printout.path);
    stream.seekg(printout.from);
    const bool of_record = is_of_record(printout.path);
    const bool of_one = printout.ranks.size() == 1;
    const std::string before = printed_.last_line;
    if (!of_record) printed_.last_line.clear();
    read_printed(stream, printed_, of_one ? std::optional(*printout.ranks.begin()) : std::nullopt);
    if (of_record) continue;
    if (of_one && !printed_.last_line.empty())
      last_lines_[*printout.ranks.begin()] = printed_.last_line;
    printed_.last_line = before;
  }
  const std::string last_line = printed_.last_line;
  for (const auto& [number, stacks] : stacks_) {
    if (!stacks.file.is_open()) continue;
    std::ifstream stream("/proc/self/fd/" + std::to_string(stacks.file.get()));
    read_printed(stream, printed_, number);
  }
  printed_.last_line = last_line;
}

void LastWords::begin_life() {
  printed_ = Printed();
  last_lines_.clear();
  stacks_.clear();
  for (Printout& printout : printouts_) {
    printout.ranks.clear();
    printout.from = bytes_of(printout.path).value_or(printout.from);
  }
}

// An error that names no rank is of the only one that failed by itself, or of all of them if all say the same; else no rank is
// blamed for it. Where there is none, the last line may say why: sys.exit("no such dataset").
void LastWords::record(const std::map<int, Supervised>& ranks, bool blames, Supervision& to) const {
  record_signals(ranks, to);
  for (const std::string& line : printed_.nccl)
    to.record(kController, to.now_ms(), Fact{"nccl", line});
  if (!printed_.launcher_said.empty())
    to.record(kLauncher, to.now_ms(), Fact{kLastLineFact, printed_.launcher_said});
  record_of_threads(printed_, ranks, to);
  std::set<int> told;
  const Errors unnamed = record_of_named(errors(), ranks, told, to);
  std::vector<int> failed = numbers_where(ranks, failed_by_itself);
  const bool alike_ends = std::all_of(failed.begin(), failed.end(), [&](int number) {
    return ranks.at(number).end->exit_code == ranks.at(failed.front()).end->exit_code;
  });
  std::erase_if(failed,
                [&](int number) { return told.contains(number) || ranks.at(number).told_error; });
  if (unnamed.empty()) return record_lines(failed, ranks, alike_ends, to);
  const bool of_failed = !failed.empty() && (failed.size() == 1 || all_alike(unnamed));
  const bool beside_others = numbers_where(ranks, is_any).size() > 1;
  for (const int number : of_failed ? failed : std::vector<int>())
    to.record(number, *ranks.at(number).ended_ms, own_error(unnamed, beside_others));
  if (of_failed || !blames) return;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, unnamed.size()); ++i) {
    const WorkerError& error = unnamed[i]->error;
    to.record(kController, to.now_ms(), Fact{kSomebodysErrorFact, error.type + ": " + error.what});
  }
}

void LastWords::record_of_threads(const Printed& printed,
                                  const std::map<int, Supervised>& ranks,
                                  Supervision& to) {
  const std::vector<int> all = numbers_where(ranks, is_any);
  for (const PrintedError& thread : printed.of_threads) {
    const bool known = thread.rank && ranks.contains(*thread.rank);
    const int number = known ? *thread.rank : all.size() == 1 ? all.front() : kController;
    to.record(number, to.now_ms(), Fact{kThreadDiedFact, told_error(thread.error)});
  }
}

LastWords::Errors LastWords::record_of_named(const std::vector<PrintedError>& errors,
                                             const std::map<int, Supervised>& ranks,
                                             std::set<int>& told,
                                             Supervision& to) {
  Errors unnamed;
  for (const PrintedError& printed : errors) {
    if (!printed.rank || !ranks.contains(*printed.rank)) {
      unnamed.push_back(&printed);
      continue;
    }
    const Supervised& rank = ranks.at(*printed.rank);
    if (is_good(rank.end)) continue;
    told.insert(*printed.rank);
    if (!rank.told_error) to.record(*printed.rank, *rank.ended_ms, printed.error);
  }
  return unnamed;
}

void LastWords::record_lines(const std::vector<int>& unexplained,
                             const std::map<int, Supervised>& ranks,
                             bool alike_ends,
                             Supervision& to) const {
  for (const int number : unexplained) {
    const auto own = last_lines_.find(number);
    // What is printed last is of one of them, or all say the same.
    const std::string line = own != last_lines_.end() ? own->second
                             : alike_ends             ? printed_.last_line
                                                      : "";
    if (!line.empty()) to.record(number, *ranks.at(number).ended_ms, Fact{kLastLineFact, line});
  }
}

// As for errors, of ranks that a signal ended.
void LastWords::record_signals(const std::map<int, Supervised>& ranks, Supervision& to) const {
  const auto record_all = [&](const auto& rows, const char* name, bool aborted) {
    const std::vector<int> ended = numbers_where(ranks, [&](const Supervised& rank) {
      const int signal = rank.end ? rank.end->signal : 0;
      return aborted ? signal == SIGABRT : signal != 0 && signal != SIGTERM;
    });
    for (const auto& [of, said] : rows) {
      const bool known = of && std::find(ended.begin(), ended.end(), *of) != ended.end();
      if (!known && ((of && ranks.contains(*of)) || ended.size() != 1)) continue;
      const int number = known ? *of : ended.front();
      to.record(number, *ranks.at(number).ended_ms, Fact{name, said});
    }
  };
  record_all(printed_.aborts, kAbortedFact, true);
  record_all(printed_.fatal_lines, kFatalLineFact, false);
}

}  // namespace harness
