#include "harness/foreign/printed.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "harness/evidence/python_frame.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::size_t kLongestLine = 4096;  // of a longer one the begin and the end are kept
constexpr std::size_t kMostFrames = 64;
constexpr std::size_t kMostNcclLines = 20;

// The next line, which ends with a line feed or a carriage return: a progress bar ends none of its lines otherwise. False: no more.
bool next_line(std::istream& stream, std::string& line) {
  line.clear();
  std::string end;
  std::streambuf& bytes = *stream.rdbuf();
  constexpr int kNone = std::char_traits<char>::eof();
  int c = bytes.sbumpc();
  if (c == kNone) return false;
  for (; c != kNone && c != '\n' && c != '\r'; c = bytes.sbumpc()) {
    if (line.size() < kLongestLine) {
      line += static_cast<char>(c);
      continue;
    }
    end += static_cast<char>(c);
    if (end.size() == 2 * kLongestLine) end.erase(0, kLongestLine);
  }
  line += end.size() > kLongestLine ? end.substr(end.size() - kLongestLine) : end;
  return true;
}

// "[rank1]: text" of PyTorch, "[default1]:text" of torchrun's --tee: the rank, and the text behind all such prefixes.
std::optional<int> take_prefix(std::string_view& line) {
  std::optional<int> rank;
  while (line.starts_with('[')) {
    const std::size_t end = line.find("]:");
    if (end == std::string_view::npos) break;
    const std::string_view name = line.substr(1, end - 1);
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    const auto number = nsa::parse_int(std::string(name.substr(digits)));
    const bool is_name = digits > 0 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '_';
                         });
    if (!number || !is_name || *number > 1'000'000) break;
    rank = static_cast<int>(*number);
    line.remove_prefix(end + 2);
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  return rank;
}

constexpr std::string_view kTraceback = "Traceback (most recent call last):";

// What stands before a traceback, as a progress bar, may have ended no line. The rank's prefix belongs to the traceback.
std::string_view begun_at_traceback(std::string_view line) {
  if (!line.ends_with(kTraceback)) return line;
  for (std::size_t at = line.rfind('['); at != std::string_view::npos && at > 0;
       at = line.rfind('[', at - 1)) {
    std::string_view rest = line.substr(at);
    if (take_prefix(rest).has_value() && rest == kTraceback) return line.substr(at);
  }
  return line;
}

// The number after `before` in a line.
std::optional<long> number_after(std::string_view line, std::string_view before) {
  std::size_t at = line.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  at += before.size();
  const std::size_t end = line.find_first_not_of("-0123456789", at);
  const auto number = nsa::parse_int(std::string(line.substr(at, end - at)));
  constexpr std::int64_t kMost = 1 << 30;  // of pids, exit codes and lines
  return number && *number >= -kMost && *number <= kMost ? std::optional<long>(*number)
                                                         : std::nullopt;
}

struct PrintedFrame {
  std::string name;
  std::string path;
  std::string line;
};

std::optional<PrintedFrame> frame_of(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kIn = " in ";  // behind a comma in a traceback
  if (!line.starts_with(kFile)) return std::nullopt;
  const std::size_t path_end = line.find("\", line ");
  if (path_end == std::string_view::npos) return std::nullopt;
  const std::size_t in = line.find(kIn, path_end);
  const auto number = number_after(line, "\", line ");
  if (!number) return std::nullopt;
  // Where Python could not read a file, no function is named.
  const bool in_function = in != std::string_view::npos;
  return PrintedFrame{in_function ? std::string(line.substr(in + kIn.size())) : "<module>",
                      std::string(line.substr(kFile.size(), path_end - kFile.size())),
                      std::to_string(*number)};
}

// "ValueError", "torch.distributed.DistBackendError": what may stand before the message of an exception.
bool is_type(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.';
         });
}

// What torchrun raises itself once one of its processes has failed.
bool is_of_the_launcher(const std::string& type) {
  return type.starts_with("torch.distributed.elastic.") ||
         type == "torch.multiprocessing.spawn.ProcessRaisedException" ||
         type == "torch.multiprocessing.spawn.ProcessExitedException";
}

// "-- Process 1 terminated with the following error:" of torch.multiprocessing.spawn: whose traceback comes next. Processes are
// ranks there, as far as a machine is concerned.
std::optional<int> spawned_process(std::string_view line) {
  if (line.find(" terminated with the following error:") == std::string_view::npos)
    return std::nullopt;
  const auto number = number_after(line, "-- Process ");
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

bool joins_two(std::string_view line) {
  return line.starts_with("Original Traceback") ||
         line.starts_with("The above exception was the direct cause of the following exception:") ||
         line.starts_with("During handling of the above exception, another exception occurred:");
}

// What a traceback does not tell: below a line of the script is LibTorch, which has no frame in Python. These words of its own are
// in no other error; python/nsa_harness/kernel_process.py says the same of what it catches.
std::vector<std::string> bases_of(const WorkerError& error) {
  if (error.type != "RuntimeError") return {};
  if (error.what.find("DefaultCPUAllocator: ") != std::string::npos) return {"std::bad_alloc"};
  if (error.what.starts_with("CUDA error: ")) return {"c10::AcceleratorError"};
  return {};
}

// One stream of lines of one rank.
class Tracebacks {
 public:
  // The error, once its last line has come.
  std::optional<WorkerError> take(std::string_view line) {
    if (line.ends_with(kTraceback)) {
      inside_ = true;
      alone_ = false;
      // What a loader's worker raised is in the message of the exception that the rank raises for it.
      const bool nested = line.find("Original Traceback") != std::string_view::npos;
      around_ = nested ? frames_ : std::vector<std::string>();
      frames_.clear();
      last_.reset();
      return std::nullopt;
    }
    auto frame = frame_of(line);
    // A script that Python cannot read has no traceback: its place stands alone.
    if (!inside_ && frame && frame->name == "<module>") {
      inside_ = alone_ = true;
      frames_.clear();
    }
    if (!inside_ || line.empty()) return std::nullopt;
    if (line.front() == ' ') {
      if (frame && frames_.size() < kMostFrames) {
        frames_.insert(frames_.begin(), told_frame(frame->name, frame->path, frame->line, ""));
        last_ = std::move(*frame);
      } else if (last_ && !frames_.empty()) {  // the text of its line
        const std::string_view text =
            line.substr(std::min(line.find_first_not_of(' '), line.size()));
        frames_.front() = told_frame(last_->name, last_->path, last_->line, text);
        last_.reset();
      }
      return std::nullopt;
    }
    inside_ = false;
    const bool alone = std::exchange(alone_, false);
    const std::size_t colon = line.find(": ");
    WorkerError error;
    error.type = line.substr(0, std::min(colon, line.find_last_not_of(':') + 1));
    if (!is_type(error.type)) return std::nullopt;
    constexpr std::array kUnread = {"SyntaxError", "IndentationError", "TabError"};
    if (alone && std::find(kUnread.begin(), kUnread.end(), error.type) == kUnread.end())
      return std::nullopt;
    if (colon != std::string_view::npos) error.what = line.substr(colon + 2);
    frames_.insert(frames_.end(), around_.begin(), around_.end());
    error.frames = frames_;
    error.bases = bases_of(error);
    return error;
  }

  [[nodiscard]] bool is_inside() const { return inside_; }

 private:
  bool inside_ = false;
  bool alone_ = false;  // without the line that a traceback begins with
  std::vector<std::string> frames_;
  std::vector<std::string> around_;   // of the exception that tells of this one
  std::optional<PrintedFrame> last_;  // whose text comes next
};

// `table_rank`: that the table named in the line before.
void read_launcher(std::string_view line, std::optional<long>& table_rank, Printed& printed) {
  if (const auto pid = number_after(line, "Sending process ")) {
    if (line.find(" closing signal ") != std::string_view::npos) {
      printed.closed.insert(static_cast<pid_t>(*pid));
    }
  }
  auto code = number_after(line, "(exitcode: ");
  if (!code) code = number_after(line, "exitcode  : ");
  const auto pid = number_after(line, "(pid: ");
  if (code && pid) printed.exit_codes[static_cast<pid_t>(*pid)] = static_cast<int>(*code);
  // Of its table of failures: "rank      : 0 (local_rank: 0)", and in the next line "exitcode  : 2 (pid: 4711)".
  constexpr std::string_view kRank = "  rank      : ";
  if (line.starts_with(kRank)) table_rank = number_after(line, kRank);
  if (code && pid && table_rank) {
    printed.table[static_cast<int>(*table_rank)] = static_cast<pid_t>(*pid);
    table_rank.reset();
  }
}

// "process 0 terminated with signal SIGABRT", "process 1 terminated with exit code 3" of torch.multiprocessing.spawn.
void read_spawner(std::string_view line, Printed& printed) {
  if (const auto raised = spawned_process(line)) printed.spawned[*raised] = 1;  // it ends so then
  constexpr std::string_view kSignal = " terminated with signal ";
  const auto process = number_after(line, "process ");
  if (!process) return;
  const auto code = number_after(line, " terminated with exit code ");
  if (code) printed.spawned[static_cast<int>(*process)] = static_cast<int>(*code);
  const std::size_t at = line.find(kSignal);
  if (at == std::string_view::npos) return;
  const std::string name(line.substr(at + kSignal.size()));
  for (int number = 1; number < NSIG; ++number) {
    const char* const known = sigabbrev_np(number);
    if (known != nullptr && name == std::string("SIG") + known)
      printed.spawned[static_cast<int>(*process)] = -number;
  }
}

// "W1128 15:35:03.811000 19850 torch/distributed/run.py:851] ...", and "[W1128 15:35:03.811000 Utils.hpp:137] Warning: ..." of its
// C++, whose errors are not left out: they may say why.
bool is_log_of_torch(std::string_view line) {
  constexpr std::size_t kDigits = 4;
  const bool of_cpp = line.starts_with('[');
  if (of_cpp) line.remove_prefix(1);
  return line.size() > kDigits &&
         std::string_view(of_cpp ? "DIW" : "DIWEF").find(line[0]) != std::string_view::npos &&
         std::all_of(line.begin() + 1,
                     line.begin() + 1 + kDigits,
                     [](unsigned char c) { return std::isdigit(c) != 0; }) &&
         line.find(of_cpp ? "] " : " torch/") != std::string_view::npos;
}

// What a launcher of PyTorch prints when its ranks have ended begins here.
bool is_of_elastic(std::string_view line) {
  return line.find("torch/distributed/elastic/") != std::string_view::npos ||
         line.find("torch.distributed.elastic.") != std::string_view::npos ||
         line.find("torch.multiprocessing.spawn.") != std::string_view::npos;
}

void read_nccl(std::string_view line, Printed& printed) {
  constexpr std::array kWatchdog = {"Watchdog caught collective operation timeout",
                                    "ProcessGroupNCCL's watchdog",
                                    "Flight recorder",
                                    "last enqueued work"};
  const bool of_nccl = std::any_of(kWatchdog.begin(), kWatchdog.end(), [&](const char* words) {
    return line.find(words) != std::string_view::npos;
  });
  if (of_nccl && printed.nccl.size() < kMostNcclLines) printed.nccl.emplace_back(line);
}

// "terminate called after throwing an instance of 'c10::Error'", and in the next line "  what():  CUDA error: ...".
class Aborts {
 public:
  std::optional<std::string> take(std::string_view line) {
    constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
    constexpr std::string_view kWhat = "  what():  ";
    const std::size_t at = line.find(kThrown);
    if (at != std::string_view::npos) {
      type_ = line.substr(at + kThrown.size(), line.rfind('\'') - at - kThrown.size());
      return std::nullopt;
    }
    // Of the C library: "train: queue.c:12: push: Assertion `n < 3' failed."
    if (line.find(": Assertion `") != std::string_view::npos && line.ends_with("' failed."))
      return std::string(line);
    if (type_.empty() || !line.starts_with(kWhat)) return std::nullopt;
    const std::string said = type_ + ": " + std::string(line.substr(kWhat.size()));
    type_.clear();
    return said;
  }

 private:
  std::string type_;
};

// "Fatal Python error: Segmentation fault", and below "Current thread 0x7f (most recent call first):" its frames.
class FatalError {
 public:
  // The user's innermost frame, once it has come.
  std::optional<std::string> take(std::string_view line) {
    if (line.starts_with("Fatal Python error: ")) {
      inside_ = true;
      current_ = false;
    } else if (inside_ && line.find("(most recent call first):") != std::string_view::npos) {
      current_ = line.starts_with("Current thread ") || line.starts_with("Stack ");
    } else if (inside_ && current_) {
      const auto frame = frame_of(line);
      if (!frame || library_path(frame->path)) return std::nullopt;
      inside_ = false;
      return told_frame(frame->name, frame->path, frame->line, "");
    }
    return std::nullopt;
  }

 private:
  bool inside_ = false;
  bool current_ = false;
};

void keep_last(std::optional<int> rank, WorkerError error, bool joined, Printed& printed) {
  if (is_of_the_launcher(error.type)) {
    if (!error.what.empty()) printed.launcher_said = error.type + ": " + error.what;
    return;
  }
  const auto same =
      std::find_if(printed.errors.rbegin(), printed.errors.rend(), [&](const auto& one) {
        return one.rank == rank && (rank.has_value() || joined);
      });
  if (same == printed.errors.rend()) {
    printed.errors.push_back({rank, std::move(error)});
    return;
  }
  const std::string& first = same->error.raised_from;  // of the chain
  if (joined) error.raised_from = first.empty() ? told_error(same->error) : first;
  same->error = std::move(error);
}

}  // namespace

std::string told_error(const WorkerError& error) {
  const std::string line = users_line(error.frames);
  return error.type + (error.what.empty() ? "" : ": " + error.what) +
         (line.empty() ? "" : ", at " + line);
}

void read_printed(std::istream& stream, Printed& printed, std::optional<int> of) {
  constexpr std::size_t kMostAborts = 20;
  std::map<std::optional<int>, Tracebacks> of_rank;
  std::map<std::optional<int>, Aborts> aborts;
  std::map<std::optional<int>, FatalError> fatal;
  std::map<std::optional<int>, bool> joined;  // the next exception comes from the one before
  std::optional<long> table_rank;
  std::optional<int> spawned;                    // whose lines come without a prefix
  bool launcher = false;                         // from here on the launcher speaks
  std::map<std::optional<int>, bool> of_thread;  // the next traceback is that of a thread
  std::string whole;
  while (next_line(stream, whole)) {
    std::string_view line = begun_at_traceback(whole);
    std::optional<int> rank = take_prefix(line);
    if (const auto process = spawned_process(line)) spawned = process;
    if (!rank) rank = spawned;
    const bool named = rank.has_value();
    if (!rank) rank = of;
    launcher = launcher || is_of_elastic(line);
    const bool blank = line.find_first_not_of(" \t") == std::string_view::npos;
    const bool in_traceback = of_rank[rank].is_inside() || line.ends_with(kTraceback);
    const bool is_own = !launcher && !named && !in_traceback && !is_log_of_torch(line);
    if (is_own && !blank) printed.last_line = line;
    read_launcher(line, table_rank, printed);
    read_spawner(line, printed);
    read_nccl(line, printed);
    if (joins_two(line)) joined[rank] = true;
    if (line.starts_with("Exception in thread ")) of_thread[rank] = true;
    auto error = of_rank[rank].take(line);
    if (error && std::exchange(of_thread[rank], false)) {
      constexpr std::size_t kMostThreads = 20;
      if (printed.of_threads.size() < kMostThreads) printed.of_threads.push_back({rank, *error});
    } else if (error) {
      keep_last(rank, std::move(*error), std::exchange(joined[rank], false), printed);
    }
    if (auto at = fatal[rank].take(line); at && printed.fatal_lines.size() < kMostAborts)
      printed.fatal_lines.emplace_back(rank, std::move(*at));
    if (auto said = aborts[rank].take(line); said && printed.aborts.size() < kMostAborts)
      printed.aborts.emplace_back(rank, std::move(*said));
  }
}

}  // namespace harness
