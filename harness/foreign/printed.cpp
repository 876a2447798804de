#include "harness/foreign/printed.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>

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
  constexpr std::string_view kIn = ", in ";
  const std::size_t path_end = line.find("\", line ");
  const std::size_t in = line.rfind(kIn);
  if (!line.starts_with(kFile) || path_end == std::string_view::npos || in < path_end) {
    return std::nullopt;
  }
  const auto number = number_after(line, "\", line ");
  if (!number || in == std::string_view::npos) return std::nullopt;
  return PrintedFrame{std::string(line.substr(in + kIn.size())),
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
  constexpr std::string_view kLauncher = "torch.distributed.elastic.";
  return type.starts_with(kLauncher);
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
      frames_.clear();
      last_.reset();
      return std::nullopt;
    }
    if (!inside_ || line.empty()) return std::nullopt;
    if (line.front() == ' ') {
      if (auto frame = frame_of(line); frame && frames_.size() < kMostFrames) {
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
    const std::size_t colon = line.find(": ");
    WorkerError error;
    error.type = line.substr(0, std::min(colon, line.find_last_not_of(':') + 1));
    if (!is_type(error.type)) return std::nullopt;
    if (colon != std::string_view::npos) error.what = line.substr(colon + 2);
    error.frames = frames_;
    error.bases = bases_of(error);
    return error;
  }

 private:
  bool inside_ = false;
  std::vector<std::string> frames_;
  std::optional<PrintedFrame> last_;  // whose text comes next
};

void read_launcher(std::string_view line, Printed& printed) {
  if (const auto pid = number_after(line, "Sending process ")) {
    if (line.find(" closing signal ") != std::string_view::npos) {
      printed.closed.insert(static_cast<pid_t>(*pid));
    }
  }
  auto code = number_after(line, "(exitcode: ");
  if (!code) code = number_after(line, "exitcode  : ");
  const auto pid = number_after(line, "(pid: ");
  if (code && pid) printed.exit_codes[static_cast<pid_t>(*pid)] = static_cast<int>(*code);
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
    if (type_.empty() || !line.starts_with(kWhat)) return std::nullopt;
    const std::string said = type_ + ": " + std::string(line.substr(kWhat.size()));
    type_.clear();
    return said;
  }

 private:
  std::string type_;
};

void keep_last(std::optional<int> rank, WorkerError error, Printed& printed) {
  if (is_of_the_launcher(error.type)) return;
  const auto same =
      std::find_if(printed.errors.begin(), printed.errors.end(), [&](const auto& one) {
        return rank.has_value() && one.rank == rank;
      });
  if (same != printed.errors.end()) {
    same->error = std::move(error);
  } else {
    printed.errors.push_back({rank, std::move(error)});
  }
}

}  // namespace

void read_printed(std::istream& stream, Printed& printed) {
  constexpr std::size_t kMostAborts = 20;
  std::map<std::optional<int>, Tracebacks> of_rank;
  std::map<std::optional<int>, Aborts> aborts;
  std::string whole;
  while (next_line(stream, whole)) {
    std::string_view line = begun_at_traceback(whole);
    const std::optional<int> rank = take_prefix(line);
    read_launcher(line, printed);
    read_nccl(line, printed);
    if (auto error = of_rank[rank].take(line)) keep_last(rank, std::move(*error), printed);
    if (auto said = aborts[rank].take(line); said && printed.aborts.size() < kMostAborts)
      printed.aborts.emplace_back(rank, std::move(*said));
  }
}

}  // namespace harness
